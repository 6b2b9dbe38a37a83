"""The figures of the results page that are kept in the repository are those of the records."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib
import pytest
from documents.pages import BUILT, ROOT

from treefold.lab.report.content import read_content
from treefold.lab.report.draw_matplotlib import draw_files
from treefold.lab.report.figure import Figure
from treefold.lab.report.report import FIGURES

PINNED = f"matplotlib=={matplotlib.__version__}" in (ROOT / "constraints.txt").read_text().split()
"""Whether strokes can be compared as well: another matplotlib may draw them otherwise."""


@pytest.fixture(scope="module")
def kept():
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    folder = BUILT.parent / FIGURES
    found = subprocess.run(
        ["git", "ls-files", "*.svg"], cwd=folder, capture_output=True, text=True, check=True
    )
    return [folder / name for name in found.stdout.splitlines()]


@pytest.fixture(scope="module")
def figures():
    return read_content(ROOT / "results").figures


def stale(kept: Sequence[Path], figures: Sequence[Figure], folder: Path) -> list[str]:
    """The names of those kept pictures that would be drawn otherwise now, or not at all."""
    by_slug = {figure.slug: figure for figure in figures}
    wrong = []
    for picture in kept:
        if picture.stem not in by_slug:
            wrong.append(picture.name)
            continue
        new = folder / picture.name
        new.write_bytes(draw_files(by_slug[picture.stem])["svg"])
        if texts(new) != texts(picture) or (PINNED and new.read_bytes() != picture.read_bytes()):
            wrong.append(picture.name)
    return wrong


def texts(picture: Path) -> list[str]:
    """What is written in a picture; its letters are strokes, and each text stands beside them."""
    return re.findall(r"<!-- (.*?) -->", picture.read_text())


def test_every_kept_figure_is_that_of_the_records(kept, figures, tmp_path):
    assert len(kept) > 5
    assert all(len(texts(picture)) > 5 for picture in kept)
    assert stale(kept, figures, tmp_path) == [], "run make results-page"


def test_a_figure_of_other_records_would_be_found(kept, figures, tmp_path):
    picture = kept[0]
    (figure,) = (figure for figure in figures if figure.slug == picture.stem)
    renamed = replace(figure, title=f"{figure.title}, later")
    assert stale([picture], [renamed], tmp_path) == [picture.name]
    assert stale([picture], [], tmp_path) == [picture.name]
    line, *others = figure.lines
    moved = replace(figure, lines=(replace(line, y=(line.y[0] + 0.01, *line.y[1:])), *others))
    assert stale([picture], [moved], tmp_path) == ([picture.name] if PINNED else [])
