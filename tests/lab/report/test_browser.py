"""The page in a real browser: plotly has drawn every line of every figure."""

import re
import shutil
import subprocess

import pytest
from lab.report.synthetic import record, save

from treefold.lab.report.content import read_content
from treefold.lab.report.draw_plotly import plotly_figure
from treefold.lab.report.page import page_html

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--virtual-time-budget=20000",
    "--enable-logging=stderr",
]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on PATH; apt-get install chromium"
)


def rendered(page, profile):
    """The page's elements after its scripts have run, and what the console said."""
    command = [
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={profile}",
        "--dump-dom",
        page.resolve().as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def plots_of(dom):
    """The elements of each figure by its name, without the script that holds the data."""
    body = dom[: dom.index('id="drawings"')]
    pieces = re.split(r'<div class="plot[^"]*" id="([^"]+)"', body)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


@pytest.fixture(scope="module")
def seen(page, tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    (folder / "report.html").write_text(page)
    return rendered(folder / "report.html", folder / "profile")


def test_every_figure_is_drawn_with_all_its_lines(seen, content):
    dom, console = seen
    assert console == []
    assert "could not be drawn" not in dom[: dom.index('id="drawings"')]
    plots = plots_of(dom)
    assert list(plots) == [figure.slug for figure in content.figures]
    for figure in content.figures:
        plot, traces = plots[figure.slug], plotly_figure(figure)["data"]
        assert 'data-drawn="yes"' in plot
        assert len(re.findall(r'class="trace scatter', plot)) == len(traces)
        drawn = re.findall(r'<path class="js-line" [^>]*?\bd="M[^"]*[LHVCQS][^"]*"', plot)
        lines = [trace for trace in traces if "lines" in trace["mode"] and "fill" not in trace]
        assert len(drawn) >= len(lines), figure.slug
        for line in figure.lines:
            hexadecimal = (int(line.colour[k : k + 2], 16) for k in (1, 3, 5))
            assert "rgb({}, {}, {})".format(*hexadecimal) in plot


def test_legends_ticks_and_axis_titles_are_on_the_page(seen):
    plot = plots_of(seen[0])["accuracy-second-minimum-standard"]
    texts = re.findall(r"<text [^>]*>([^<]+)</text>", plot)
    for text in ("GRU", "Binary-GRU-Assoc", "PNA", "best constant answer", "16", "200"):
        assert text in texts
    assert {"integers in the set", "accuracy", "largest in training: 16"} <= set(texts)


def test_a_malicious_record_runs_no_script(tmp_path):
    evil = '<img src=x onerror="document.documentElement.dataset.evil=1">'
    save(tmp_path / "runs" / "a", record(evil, error=evil))
    save(tmp_path / "runs" / "b", record(f"</script>{evil}", departures=[evil]))
    path = tmp_path / "report.html"
    path.write_text(page_html(read_content(tmp_path / "runs"), tmp_path))
    dom, console = rendered(path, tmp_path / "profile")
    assert "data-evil" not in dom
    assert "<img" not in dom[: dom.index('id="drawings"')]
    assert 'data-drawn="yes"' in dom
    assert console == []
