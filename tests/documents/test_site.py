"""The site is built from its pages without a warning, and a browser draws it with no network."""

import html
import json
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module

import pytest
from documents.pages import ROOT
from lab.report.test_browser import CHROMIUM, FLAGS

pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
pytest.importorskip("furo", reason="the extra `docs` is not installed")
pytest.importorskip("myst_parser", reason="the extra `docs` is not installed")

from sphinx.util.inventory import InventoryFile

PACKAGES = sorted(
    re.search(r"automodule:: (treefold\.[\w.]+)", path.read_text())[1]
    for path in (ROOT / "docs" / "api").glob("*.md")
    if path.stem not in ("index", "treefold")
)
# Loads a page beside itself and writes down what has a place on it.
PROBE = """<!doctype html><iframe id="page" src="{page}" width="1200" height="900"></iframe>
<pre id="seen"></pre><script>
document.getElementById("page").onload = event => {{
  const shown = event.target.contentDocument;
  const box = element => element.getBoundingClientRect();
  const sizes = kind => [...shown.querySelectorAll(kind)].map(e => [box(e).width, box(e).height]);
  const parts = [...shown.querySelectorAll("article mfrac")].map(e => [...e.children].map(box));
  const images = [...shown.images].map(e => [e.naturalWidth, e.complete ? 1 : 0]);
  document.getElementById("seen").textContent =
    JSON.stringify({{letters: sizes("article mi"), fractions: parts, images: images}});
}};
</script>"""
browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on PATH; apt-get install chromium"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "sphinx", "-W", "--keep-going", "-n", "-q"]
    command += ["-d", str(out / "doctrees"), "-b", "html", str(ROOT / "docs"), str(out / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


@contextmanager
def served(folder):
    """The address at which a server on this machine gives the files of a folder."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def seen(site, address, profile):
    """A page's elements after its scripts have run; names of other machines lead nowhere."""
    with served(site) as root:
        alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        command = [CHROMIUM, *FLAGS, alone, f"--user-data-dir={profile}", "--dump-dom"]
        done = subprocess.run(
            [*command, f"{root}/{address}"], capture_output=True, text=True, timeout=240
        )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


def probed(site, page, profile):
    """Elements that have a place on a page: letters of formulas, parts of fractions, pictures."""
    (site / "probe.html").write_text(PROBE.format(page=page))
    dom = seen(site, "probe.html", profile)
    return json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', dom)[1]))


@browser
def test_formulas_and_pictures_of_the_idea_are_drawn(site, tmp_path):
    found = probed(site, "idea.html", tmp_path)
    assert len(found["letters"]) > 30
    invisible = [size for size in found["letters"] if min(size) < 3]
    assert invisible == []
    assert found["fractions"]
    for above, below in found["fractions"]:  # one half, and not the text "12"
        assert above["bottom"] <= below["top"]
    assert len(found["images"]) == 4
    assert all(width > 100 and complete for width, complete in found["images"])


@browser
def test_the_figures_of_the_results_are_drawn(site, tmp_path):
    images = probed(site, "results.html", tmp_path)["images"]
    assert len(images) == (ROOT / "docs" / "results.md").read_text().count("![") > 0
    assert all(width > 300 and complete for width, complete in images)


@browser
@pytest.mark.parametrize(
    ("words", "page"), [("associativity", "idea.html"), ("sharded_reduce", "api/distributed.html")]
)
def test_search_finds_pages_and_names(site, tmp_path, words, page):
    dom = seen(site, f"search.html?q={words}", tmp_path)
    results = dom[dom.index('id="search-results"') :]
    assert re.search(rf'<li[^>]*><a href="{re.escape(page)}', results)


@browser
def test_search_says_so_when_there_is_nothing(site, tmp_path):
    dom = seen(site, "search.html?q=zzyzx", tmp_path)
    assert "did not match any documents" in dom[dom.index('id="search-results"') :]


def test_every_public_name_is_in_the_reference(site):
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    described = {
        name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names
    }
    for package in (name for name in PACKAGES if not name.startswith("treefold.lab")):
        public = {f"{package}.{name}" for name in getattr(import_module(package), "__all__", ())}
        others = {name.rpartition(".")[2] for name in described}
        assert {name for name in public if name.rpartition(".")[2] not in others} == set()


def test_the_reference_has_a_page_for_every_package_with_public_names():
    source = ROOT / "src" / "treefold"
    doors = [*source.glob("*/__init__.py"), *source.glob("lab/*/__init__.py")]
    public = {
        ".".join(path.parent.relative_to(source.parent).parts)
        for path in doors
        if "__all__" in path.read_text()
    }
    assert set(PACKAGES) == public | {"treefold.saving"}  # a single file


def test_no_page_takes_anything_from_the_network(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert re.findall(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//[^"]*', text) == []
        assert re.findall(r'<link[^>]+rel="stylesheet"[^>]+href="(?:https?:)?//[^"]*', text) == []


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path):
    (tmp_path / "conf.py").write_text((ROOT / "docs" / "conf.py").read_text().replace(
        'Path(__file__).parent / "_ext"', f'Path({str(ROOT / "docs" / "_ext")!r})'
    ).replace('html_static_path = ["_static"]', ""))  # fmt: skip
    (tmp_path / "index.md").write_text("# A page\n\n[there](nowhere.md), $\\nonsense$\n")
    command = [sys.executable, "-W", "ignore", "-m", "sphinx", "-W", "--keep-going", "-n", "-q"]
    command += ["-b", "html", str(tmp_path), str(tmp_path / "html")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "nonsense" in done.stderr
