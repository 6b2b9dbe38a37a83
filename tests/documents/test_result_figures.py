"""The figures of the results page that are kept in the repository are those of the records."""

import importlib
import re

import matplotlib
import pytest
from documents.pages import BUILT, ROOT

from treefold.lab.report.names import in_order
from treefold.lab.runs import load_groups

PINNED = f"matplotlib=={matplotlib.__version__}" in (ROOT / "constraints.txt").read_text().split()
"""True if strokes can be compared as well: another matplotlib may draw them otherwise."""
FIGURES = BUILT.parent / "figures"


@pytest.fixture(scope="module")
def publishing():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        return importlib.import_module("publish_results")


@pytest.fixture(scope="module")
def drawn(publishing):
    return publishing.drawn(in_order(load_groups(ROOT / "results")[0]))


def texts(picture):
    """The texts of a picture."""
    return re.findall(r"<text[^>]*>([^<]+)</text>", picture)


def test_every_kept_figure_is_that_of_the_records(drawn):
    assert len(drawn) > 5
    for name, now in drawn.items():
        kept = (FIGURES / name).read_text()
        assert len(texts(kept)) > 5
        assert texts(kept) == texts(now), f"{name}: run make results-page"
        assert kept == now or not PINNED, f"{name}: run make results-page"


def test_every_figure_of_a_page_is_drawn(drawn):
    shown = [
        name
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for name in re.findall(r"results/figures/([\w-]+\.svg)", page.read_text())
    ]
    assert shown
    assert set(shown) <= set(drawn)


def test_a_figure_in_a_file_follows_the_system_into_the_dark(drawn):
    assert all("prefers-color-scheme:dark" in svg for svg in drawn.values())
