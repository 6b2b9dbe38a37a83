"""Figures as data, and their drawing: SVG that takes the page's fonts and its light or dark."""

import html
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from treefold.lab.report.runs import Stat

CARD, WIDE = (500, 330), (980, 400)
"""Widths and heights: two beside each other, and one across the page."""
_INK, _FAINT = "#0a0b0c", "#0d0e0f"
"""Stand for the colours of text and of grid lines, which the page decides."""
_LOOK: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 11,
    "axes.linewidth": 0.8,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), _FAINT),
}


class Line(NamedTuple):
    """One curve with its range; with the marker "D" published points, which have no name."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dash: str = "solid"
    marker: str = ""


class Axis(NamedTuple):
    """What an axis measures; `ticks` with their words where the choice matters."""

    title: str
    log: bool = False
    ticks: Sequence[float] = ()
    words: Sequence[str] = ()
    limits: tuple[float, float] | None = None


class Figure(NamedTuple):
    """A figure as data; a `rule` is a line at a place of the x axis, with words for it."""

    slug: str
    title: str
    caption: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    rule: tuple[float, str] | None = None


def line_of(points: Mapping[Any, Stat], label: str, colour: str, dash: str, marker: str) -> Line:
    """A line through means, with its range where there is one."""
    means, lows, highs = zip(*((s.mean, s.low, s.high) for s in points.values()), strict=True)
    ends = (lows, highs) if lows != highs else ((), ())
    return Line(label, tuple(points), means, colour, *ends, dash, marker)


def draw(figure: Figure, size: tuple[int, int] = CARD) -> str:
    """The figure as SVG whose text has the colour around it, and whose grid has `--faint`."""
    width, height = size
    look: Any = {**_LOOK, "svg.hashsalt": f"{figure.slug}{size}"}
    with matplotlib.rc_context(look):
        names = [each for each in figure.lines if each.label]
        right = min(26 + max((6.4 * len(each.label) for each in names), default=0), 0.42 * width)
        left, bottom, top = 64, 44, 22 if figure.rule else 12
        shares = 1 - (left + right) / width, 1 - (bottom + top) / height
        canvas = Canvas(figsize=(width / 72, height / 72), dpi=72, facecolor="none")
        axes = canvas.add_axes((left / width, bottom / height, *shares), facecolor="none")
        _frame(axes, figure)
        for each in figure.lines:
            _curve(axes, each)
        canvas.draw_without_rendering()  # settles the limits
        _write_names(axes, canvas, names, size)
        _thin_ticks(axes)
        buffer = io.StringIO()
        canvas.savefig(buffer, format="svg", metadata={"Date": None})
    return _cleaned(buffer.getvalue(), figure, size)


def _frame(axes: Axes, figure: Figure) -> None:
    for axis, ticks, limit in (
        (figure.x, axes.xaxis, axes.set_xlim),
        (figure.y, axes.yaxis, axes.set_ylim),
    ):
        if axis.log:
            axes.set(**{f"{ticks.axis_name}scale": "log"})
            ticks.set_minor_locator(NullLocator())
        if axis.ticks:
            ticks.set_major_locator(FixedLocator(list(axis.ticks)))
            ticks.set_ticklabels(axis.words)
        ticks.set_label_text(axis.title)
        if axis.limits:
            limit(*axis.limits)
    axes.tick_params(length=0, pad=5)
    # Powers of two, where a balanced tree gains a level, have lines too.
    axes.grid(axis="both" if figure.rule else "y", linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.margins(x=0.02)
    if figure.rule:
        place, words = figure.rule
        axes.axvline(place, color=_INK, linewidth=1, linestyle=(0, (1, 2)))
        axes.text(place, 1.02, words, transform=axes.get_xaxis_transform(), ha="center")


def _curve(axes: Axes, each: Line) -> None:
    if each.low and each.marker == "D":
        axes.vlines(each.x, each.low, each.high, color=each.colour, linewidth=1)
    elif each.low and len(each.x) > 1:
        axes.fill_between(each.x, each.low, each.high, color=each.colour, alpha=0.16, linewidth=0)
    marker = "o" if len(each.x) == 1 and each.label else each.marker
    look: dict[str, Any] = {"linewidth": 1.2 if each.dash == "dotted" else 1.9, "markersize": 3.5}
    if marker == "D":
        look = {"linewidth": 0, "markersize": 5, "markerfacecolor": "none", "zorder": 4}
    axes.plot(each.x, each.y, color=each.colour, linestyle=each.dash, marker=marker, **look)


def _write_names(axes: Axes, canvas: Canvas, names: Sequence[Line], size: tuple[int, int]) -> None:
    """Write each line's name at its right end, moved apart where they would touch."""
    box = axes.get_window_extent()
    ends = [(*axes.transData.transform((each.x[-1], each.y[-1])), each) for each in names]
    ends = sorted((end for end in ends if math.isfinite(end[1])), key=lambda end: end[1])
    inside = [min(max(y, box.y0), box.y1) for _, y, _ in ends]
    places = apart(inside, 14.0, 8.0, size[1] - 8.0)
    for (x, _, each), y, place in zip(ends, inside, places, strict=True):
        look: dict[str, Any] = {"color": each.colour, "linestyle": each.dash, "linewidth": 1.2}
        leader = ([x if box.y0 < y < box.y1 else box.x1, box.x1 + 4, box.x1 + 14], [y, y, place])
        canvas.add_artist(Line2D(*leader, transform=None, **look))
        canvas.text((box.x1 + 18) / size[0], place / size[1], each.label, va="center")


def apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places in order, each at least `gap` from the next, near to where they were."""
    found = list(places)
    for _ in range(300):
        for k in range(len(found) - 1):
            missing = max(gap - (found[k + 1] - found[k]), 0.0) / 2
            found[k], found[k + 1] = found[k] - missing, found[k + 1] + missing
        if found:
            found[0], found[-1] = max(found[0], low), min(found[-1], high)
    return found


def _thin_ticks(axes: Axes) -> None:
    """Leave out what would touch the number to its right."""
    edge = math.inf
    for label in reversed(axes.get_xticklabels()):
        box = label.get_window_extent()
        if box.x1 + 10 > edge:
            label.set_visible(False)
        elif label.get_text():
            edge = box.x0


def _cleaned(svg: str, figure: Figure, size: tuple[int, int]) -> str:
    """Only what is drawn, in the page's colours, to a tenth of a pixel."""
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.S)
    svg = re.sub(r' id="[a-z]+[\da-z]*_\d+"', "", svg)
    svg = re.sub(r'(?<= )(?:d|x|y|transform)="[^"]+"', lambda found: _rounded(found[0]), svg)
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><").strip()
    svg = svg.replace(_INK, "currentColor").replace(_FAINT, "var(--faint)")
    head = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    head += f'width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}" role="img" '
    head += f'aria-label="{html.escape(figure.title)}">'
    return re.sub(r"<svg [^>]*>", lambda _: head, svg, count=1)


def _rounded(numbers: str) -> str:
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), numbers)
