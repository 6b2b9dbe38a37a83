"""The page in a real browser, on a screen and on a phone: drawn, within its width, not cut off."""

import html
import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--virtual-time-budget=20000", "--window-size=1500,1200", "--dump-dom"),
]
# The page is in a frame as wide as the screen asked for, so nothing in it is changed to look at it.
FRAME = """<!DOCTYPE html><iframe id="page" style="border:0;width:{width}px;height:900px"
srcdoc="{page}"></iframe><pre id="seen"></pre><script>
const box = element => element.getBoundingClientRect();
function look() {{
  const inner = document.getElementById("page").contentDocument, root = inner.documentElement;
  inner.querySelectorAll("details").forEach(details => details.open = true);
  const shown = [...inner.querySelectorAll(".drawing svg")].filter(svg => box(svg).width > 0);
  const wide = element => element.closest(".scroll") === null && !element.closest("svg");
  const seen = {{
    width: root.clientWidth, scrolls: root.scrollWidth,
    figures: shown.map(svg => ({{
      width: box(svg).width, paths: svg.querySelectorAll("path").length,
      font: Math.min(...[...svg.querySelectorAll("text")].map(text => box(text).height)),
      cut: [...svg.querySelectorAll("text")].filter(text =>
        box(text).left < box(svg).left - 1 || box(text).right > box(svg).right + 1 ||
        box(text).top < box(svg).top - 1 || box(text).bottom > box(svg).bottom + 1
      ).map(text => text.textContent) }})),
    outside: [...inner.querySelectorAll("main *")].filter(wide).filter(element =>
      box(element).right > root.clientWidth + 1).map(element => element.outerHTML.slice(0, 80)),
    clipped: [...inner.querySelectorAll("main *")].filter(wide).filter(element =>
      element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0 &&
      inner.defaultView.getComputedStyle(element).overflowX !== "visible"
    ).map(element => element.outerHTML.slice(0, 80)),
    sliding: [...inner.querySelectorAll(".scroll")].filter(element =>
      element.scrollWidth > element.clientWidth + 1
    ).map(element => `${{element.scrollWidth}}: ${{element.textContent.slice(0, 60)}}`),
    colours: ["color", "backgroundColor"].map(name =>
      inner.defaultView.getComputedStyle(inner.body)[name]),
  }};
  document.getElementById("seen").textContent = JSON.stringify(seen);
}}
document.getElementById("page").onload = look;
</script>"""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on PATH; apt-get install chromium"
)


def look_at(text, width, folder, *flags):
    """The looks of a page that wide, in numbers; every fold is open."""
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(width=width, page=html.escape(text)))
    command = [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", frame.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    seen = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    return json.loads(html.unescape(seen[1]))


@pytest.fixture(scope="module", params=[1400, 420])
def seen(request, page, tmp_path_factory):
    return look_at(page, request.param, tmp_path_factory.mktemp("browser"))


def every(section):
    """A section with all of its parts."""
    return [section, *(each for part in section.parts for each in every(part))]


def test_every_figure_is_drawn_at_a_size_to_be_read(seen, content):
    drawn = [f for section in every(content) for f in (section.headline, *section.figures) if f]
    assert len(seen["figures"]) == len(drawn) > 5
    for figure in seen["figures"]:
        assert figure["paths"] > 5
        assert figure["width"] > 300
        assert figure["font"] > 8


def test_nothing_is_wider_than_the_page_or_cut_off(seen):
    assert seen["scrolls"] <= seen["width"]
    assert seen["outside"] == []
    assert seen["clipped"] == []
    assert [figure["cut"] for figure in seen["figures"] if figure["cut"]] == []


def test_tables_fit_on_a_screen(seen):
    if seen["width"] > 1000:
        assert seen["sliding"] == []


def test_the_page_follows_the_system_into_the_dark(page, tmp_path):
    dark = look_at(page, 1000, tmp_path, "--blink-settings=preferredColorScheme=0")
    light = look_at(page, 1000, tmp_path, "--blink-settings=preferredColorScheme=1")
    red = [
        int(re.match(r"rgb\((\d+)", colour)[1]) for colour in (*light["colours"], *dark["colours"])
    ]
    assert red[0] < 60 < 200 < red[1]
    assert red[3] < 60 < 200 < red[2]
