"""Every snippet of README and docs runs, and links to files lead somewhere."""

import re
from urllib.parse import urlsplit

import jaxtyping
import pytest
from documents.pages import PAGES, ROOT, blocks_of, name_of, run_command, run_page

README = ROOT / "README.md"  # its commands are run by test_readme.py, each in a process of its own
WITH_SNIPPETS = [
    page for page in PAGES if {block.language for block in blocks_of(page)} & {"python", "sh"}
]
LANGUAGES = {"python", "sh", "toctree", "include"}


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=name_of)
def test_all_snippets_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.setenv("TREEFOLD_DATA", str(ROOT / "tests" / "data" / "realworld"))
    monkeypatch.setenv("TREEFOLD_CACHE", str(tmp_path / "cache"))
    if "treefold fold" in page.read_text():
        pytest.importorskip("ray", reason="the extra `ray` is not installed")
    # Shape checks are no part of what is exported.
    jaxtyping.config.update("jaxtyping_disable", "torch.export" in page.read_text())
    try:
        run_page(page, tmp_path, languages=("python",) if page == README else ("python", "sh"))
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


def test_a_service_that_imports_torch_fails(tmp_path):
    (tmp_path / "serve.py").write_text("import torch")
    with pytest.raises(AssertionError, match="import of torch halted"):
        run_command(["python", "serve.py"], tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_is_in_a_language_that_is_not_run(page):
    languages = {block.language for block in blocks_of(page)}
    assert languages <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_all_local_links_and_file_names_exist(page):
    text = page.read_text()
    outside_code = re.sub(r"^```.*?^```|`[^`\n]*`", "code", text, flags=re.DOTALL | re.MULTILINE)
    links = [x for x in re.findall(r"\]\(([^)#]+)", outside_code) if "://" not in x]
    named = re.findall(r"`((?:src|tests|examples|benchmarks|docs)/[\w/.-]+\.\w+)`", text)
    missing = [link for link in links if not (page.parent / link).exists()]
    missing += [name for name in named if not (ROOT / name).exists()]
    assert [name for name in missing if "gated_sum" not in name] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_other_sites_are_well_formed(page):
    for link in re.findall(r"\w+://[^\s)>`\"]+", page.read_text()):
        parts = urlsplit(link)
        assert parts.scheme == "https", link
        assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc), link
