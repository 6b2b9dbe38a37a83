"""A figure as data becomes SVG that takes its colours from the page around it."""

import re
from xml.etree import ElementTree

import pytest

from treefold.lab.report.draw import CARD, SPARK, WIDE, Figure, Line, draw
from treefold.lab.runs import Stat

MEANS = {1: Stat(0.5, 0.4, 0.6), 2: Stat(0.7, 0.6, 0.8), 4: Stat(0.6, 0.5, 0.7)}
NAMED = Line("<GRU> & $x$", MEANS, "#d55e00")
POINTS = Line("", {2: Stat(0.9, 0.8, 1.0)}, "#009e73", marker="D")
FIGURE = Figure("a", "A figure", "", "size", "accuracy", (NAMED, POINTS), "x", rule=(2, "here: 2"))


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter() if element.text]


@pytest.mark.parametrize("size", [CARD, WIDE])
def test_names_axes_ticks_and_the_rule_are_written_as_text(size):
    svg = draw(FIGURE, size)
    assert {"<GRU> & $x$", "size", "accuracy", "1", "2", "4", "here: 2"} <= set(texts(svg))
    grown = 24 if size == CARD else 0  # by the names below it
    assert f'viewBox="0 0 {size[0]} {size[1] + grown}"' in svg


def test_the_page_decides_the_colours_of_text_and_grid():
    svg = draw(FIGURE)
    colours = set(re.findall("#[0-9a-f]{6}", svg))
    assert colours == {"#d55e00", "#009e73"}
    assert "currentColor" in svg
    assert "var(--faint)" in svg


def test_the_same_figure_is_the_same_bytes():
    assert draw(FIGURE) == draw(FIGURE)
    assert draw(FIGURE) != draw(
        FIGURE._replace(lines=(NAMED._replace(points={**MEANS, 2: MEANS[1]}),))
    )


def test_sizes_are_marked_at_powers_of_two():
    many = {2**k: Stat(0.5, 0.5, 0.5) for k in range(5, 11)}
    svg = draw(FIGURE._replace(lines=(NAMED._replace(points=many),), rule=None))
    shown = [text for text in texts(svg) if text.replace(",", "").isdecimal()]
    assert shown == ["32", "64", "128", "256", "512", "1,024"]


def test_names_stand_in_the_order_in_which_lines_end():
    low = NAMED._replace(label="low", points={1: Stat(0.9, 0.9, 0.9), 4: Stat(0.1, 0.1, 0.1)})
    for size in (CARD, WIDE):
        words = texts(draw(FIGURE._replace(lines=(low, NAMED)), size))
        assert words.index(NAMED.label) < words.index("low")


def test_a_spark_has_lines_and_no_words():
    svg = draw(FIGURE._replace(rule=None), SPARK)
    assert "<text" not in svg
    assert "#d55e00" in svg


def test_what_lies_outside_of_the_limits_does_not_stretch_the_figure():
    far = NAMED._replace(points={1: Stat(0.5, 0.5, 0.5), 2: Stat(800.0, 90.0, 900.0)})
    svg = draw(FIGURE._replace(limits=(0.0, 1.0), lines=(far,)))
    assert "800" not in texts(svg)
    assert "1.0" in texts(svg)


def test_a_line_has_a_band_where_runs_differ():
    def bands(line):
        return draw(FIGURE._replace(lines=(line,))).count("opacity: 0.16")

    assert bands(NAMED) == 1
    assert bands(NAMED._replace(points={x: Stat(x, x, x) for x in (1, 2, 4)})) == 0


def test_a_logarithmic_axis_has_plain_numbers():
    line = NAMED._replace(points={1: Stat(3.0, 3.0, 3.0), 2: Stat(400.0, 400.0, 400.0)})
    words = texts(draw(FIGURE._replace(lines=(line,), log="xy")))
    assert {"5", "10", "20", "50", "100", "200"} <= set(words)
