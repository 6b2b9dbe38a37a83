"""A figure as data becomes SVG that takes its colours from the page around it."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from treefold.lab.report.draw import CARD, WIDE, Axis, Figure, Line, apart, draw, line_of
from treefold.lab.report.runs import Stat

NAMED = Line("<GRU> & $x$", (1, 2, 4), (0.5, 0.7, 0.6), "#d55e00", (0.4, 0.6, 0.5), (0.6, 0.8, 0.7))
POINTS = Line("", (2,), (0.9,), "#009e73", (0.8,), (1.0,), marker="D")
SIZES = Axis("size", True, (1, 2, 4), ("1", "2", "4"))
FIGURE = Figure("a", "A figure", "", SIZES, Axis("accuracy"), (NAMED, POINTS), (2, "here: 2"))


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter() if element.text]


@pytest.mark.parametrize("size", [CARD, WIDE])
def test_names_axes_ticks_and_the_rule_are_written_as_text(size):
    svg = draw(FIGURE, size)
    assert {"<GRU> & $x$", "size", "accuracy", "1", "2", "4", "here: 2"} <= set(texts(svg))
    assert f'viewBox="0 0 {size[0]} {size[1]}"' in svg


def test_the_page_decides_the_colours_of_text_and_grid():
    svg = draw(FIGURE)
    colours = set(re.findall("#[0-9a-f]{6}", svg))
    assert colours == {"#d55e00", "#009e73"}
    assert "currentColor" in svg
    assert "var(--faint)" in svg


def test_the_same_figure_is_the_same_bytes():
    assert draw(FIGURE) == draw(FIGURE)
    assert draw(FIGURE) != draw(FIGURE._replace(lines=(NAMED._replace(y=(0.5, 0.8, 0.6)),)))


def test_numbers_of_the_axis_do_not_touch():
    many = [2**k for k in range(14)]
    axis = Axis("size", True, many, [f"{each:,}" for each in many])
    svg = draw(FIGURE._replace(x=axis, lines=(Line("a" * 40, many, many, "#d55e00"),)))
    shown = [text for text in texts(svg) if text.replace(",", "").isdecimal()]
    assert "8,192" in shown
    assert "4,096" not in shown


def test_what_lies_outside_of_the_limits_does_not_stretch_the_figure():
    limits = Axis("error", limits=(0.0, 1.0))
    svg = draw(FIGURE._replace(y=limits, lines=(NAMED._replace(y=(0.5, 90.0, 800.0)),)))
    assert "800" not in texts(svg)
    assert "1.0" in texts(svg)


def test_a_line_has_a_range_where_runs_differ():
    one, two = Stat(1.0, 1.0, 1.0), Stat(2.0, 1.5, 2.5, 0.5)
    assert line_of({8: one}, "a", "#000000", "solid", "").low == ()
    found = line_of({8: one, 16: two}, "a", "#000000", "solid", "")
    assert (found.x, found.y, found.low, found.high) == ((8, 16), (1, 2), (1, 1.5), (1, 2.5))


@pytest.mark.parametrize("places", [[], [5.0], [5.0, 5.0, 5.1], [0.0, 90.0, 99.0, 100.0]])
def test_names_are_moved_apart_and_stay_inside(places):
    found = apart(places, 10.0, 0.0, 100.0)
    assert found == sorted(found)
    assert all(b - a > 9.5 for a, b in pairwise(found))
    assert all(-0.5 <= place <= 100.5 for place in found)
