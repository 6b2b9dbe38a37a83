"""The pictures of the pages are those that `docs/draw_idea.py` draws."""

import importlib.util
import re
import subprocess

import pytest
from documents.pages import PAGES, ROOT

pytest.importorskip("matplotlib", reason="the extra `docs` is not installed")


@pytest.fixture(scope="module")
def drawing():
    spec = importlib.util.spec_from_file_location("draw_idea", ROOT / "docs" / "draw_idea.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(path):
    """The texts of a picture; strokes may differ from one matplotlib to the next."""
    return re.findall(r">([^<>\s][^<>]*)</t", path.read_text())


def test_every_picture_says_what_it_would_say_if_drawn_now(drawing, tmp_path):
    drawing.draw_all(tmp_path)
    for name in drawing.FIGURES:
        kept = ROOT / "docs" / "figures" / f"{name}.svg"
        assert len(texts(kept)) > 5
        assert texts(kept) == texts(tmp_path / f"{name}.svg")


def test_a_list_is_as_deep_as_it_is_long_and_a_tree_is_not(drawing):
    leaves = drawing.leaves(8)
    assert drawing.height(drawing.bracket_list(leaves)) == 7
    assert drawing.height(drawing.bracket_tree(leaves)) == 3


def test_the_padded_answer_moves_only_once_another_set_is_larger(drawing):
    theirs, ours = drawing.padding_numbers()
    assert max(ours) < 1e-5
    for size, change in zip(drawing.OTHER_SIZES, theirs, strict=True):
        assert change > 0.1 if size > 5 else change < 1e-5


def test_every_picture_that_a_page_shows_is_part_of_the_repository():
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {(ROOT / name).resolve() for name in kept.stdout.splitlines()}
    shown = [
        (page.parent / name).resolve()
        for page in PAGES
        for name in re.findall(r"!\[[^\]]*\]\(([^):]+)\)", page.read_text())
    ]
    assert len(shown) > 5
    assert [picture for picture in shown if picture not in files] == []
