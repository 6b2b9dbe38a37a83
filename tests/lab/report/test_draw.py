"""Both drawings show the same figure."""

import io
import re

import plotly.graph_objects as go
import pytest
from PIL import Image

from treefold.lab.report.draw_matplotlib import draw_files
from treefold.lab.report.draw_plotly import plotly_figure
from treefold.lab.report.figure import Axis, Figure, Line, Rule

ODD = "_<b>$x^{$ 漢字 & \\"

FIGURE = Figure(
    "accuracy",
    "Accuracy: a title",
    "preset quick; 20 epochs, 2 seeds",
    "A caption.",
    Axis("size", True, (1.0, 16.0), ("1", "16")),
    Axis("accuracy", limits=(0.0, 1.0)),
    (
        Line("GRU", (1, 16), (0.9, 0.5), "#D55E00", (0.8, 0.4), (1.0, 0.6), "dash"),
        Line("paper", (16,), (0.7,), "#D55E00", (0.6,), (0.75,), mode="markers"),
        Line("hidden", (1, 16), (0.1, 0.1), "#0072B2", in_legend=False),
        Line(ODD, (1, 16), (0.2, 0.3), "#009E73", mode="lines+markers"),
    ),
    (Rule(16, "largest"),),
)


def test_plotly_gets_the_band_the_line_and_the_error_bars():
    drawn = plotly_figure(FIGURE)
    band, gru, paper, hidden, _ = drawn["data"]
    assert (band["x"], band["y"]) == ([1, 16, 16, 1], [1.0, 0.6, 0.4, 0.8])
    assert band["fillcolor"] == "rgba(213,94,0,0.18)"
    assert (gru["x"], gru["y"], gru["line"]["color"]) == ([1, 16], [0.9, 0.5], "#D55E00")
    assert paper["error_y"]["array"] == [0.05]
    assert paper["error_y"]["arrayminus"] == [0.1]
    assert [trace["showlegend"] for trace in (band, gru, hidden)] == [False, True, False]
    assert drawn["layout"]["annotations"][0]["x"] == pytest.approx(1.20412)  # log10(16)
    assert drawn["layout"]["shapes"][0]["x0"] == 16


def test_plotly_knows_every_property(content):
    for figure in [FIGURE, *content.figures]:
        go.Figure(plotly_figure(figure))  # raises at the first name or value it does not know


def test_plotly_labels_are_text_and_not_markup():
    assert plotly_figure(FIGURE)["data"][-1]["name"] == "_&lt;b&gt;$x^{$ 漢字 &amp; \\"


def test_files_are_pictures_with_title_note_and_legend():
    files = draw_files(FIGURE)
    assert Image.open(io.BytesIO(files["png"])).size == (1140, 780)
    texts = re.findall(r"<!-- (.*?) -->", files["svg"].decode())
    for text in (
        "Accuracy: a title",
        "preset quick; 20 epochs, 2 seeds",
        "GRU",
        "paper",
        "largest",
    ):
        assert text in texts
    assert "hidden" not in texts


@pytest.mark.parametrize("kind", ["accuracy", "lambda", "seconds", "violation"])
def test_every_kind_of_figure_is_drawn_with_its_labels(content, kind):
    figure = next(figure for figure in content.figures if figure.slug.startswith(kind))
    texts = re.findall(r"<!-- (.*?) -->", draw_files(figure)["svg"].decode())
    labels = {line.label for line in figure.lines if line.in_legend}
    assert labels | set(figure.x.labels) | {figure.title, figure.x.title} <= set(texts)


def test_files_hold_the_colours_of_the_lines():
    svg = draw_files(FIGURE)["svg"].decode().lower()
    assert all(colour in svg for colour in ("#d55e00", "#0072b2", "#009e73"))


def test_files_are_the_same_every_time():
    assert draw_files(FIGURE) == draw_files(FIGURE)
