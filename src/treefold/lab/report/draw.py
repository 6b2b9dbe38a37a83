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
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from treefold.lab.runs import Stat

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
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


class Line(NamedTuple):
    """Means with their ranges; with the marker "D" published points, which have no name."""

    label: str
    points: Mapping[Any, Stat]
    colour: str
    dash: str = "solid"
    marker: str = ""


class Figure(NamedTuple):
    """A figure as data; `x` and `y` are the titles of its axes."""

    slug: str
    title: str
    caption: str
    x: str
    y: str
    lines: Sequence[Line]
    log: str = ""
    """The axes that are logarithmic: x, y, or xy."""
    ticks: Mapping[Any, str] = {}
    """Places of the x axis with their words, where the choice matters."""
    limits: tuple[float, float] | None = None
    """Ends of the y axis."""
    rule: tuple[float, str] | None = None
    """A line at a place of the x axis, with words for it."""


def draw(figure: Figure, size: tuple[int, int] = CARD) -> str:
    """The figure as SVG whose text has the colour around it, and whose grid has `--faint`."""
    width, height = size
    look: Any = {**_LOOK, "svg.hashsalt": f"{figure.slug}{size}"}
    with matplotlib.rc_context(look):
        longest = max((len(line.label) for line in figure.lines), default=0)
        right = min(26 + 6.4 * longest, 0.42 * width)
        left, bottom, top = 64, 44, 22 if figure.rule else 12
        shares = 1 - (left + right) / width, 1 - (bottom + top) / height
        canvas = Canvas(figsize=(width / 72, height / 72), dpi=72, facecolor="none")
        axes = canvas.add_axes((left / width, bottom / height, *shares), facecolor="none")
        for line in figure.lines:
            _curve(axes, line)
        _frame(axes, figure)
        canvas.draw_without_rendering()  # settles the limits
        _write_names(axes, figure.lines, height)
        _thin_ticks(axes)
        buffer = io.StringIO()
        canvas.savefig(buffer, format="svg", metadata=_NO_METADATA)
    return _cleaned(buffer.getvalue(), figure, size)


def _curve(axes: Axes, line: Line) -> None:
    places, stats = list(line.points), line.points.values()
    means, lows, highs = ([*ends] for ends in list(zip(*stats, strict=True))[:3])
    look: dict[str, Any] = {"color": line.colour, "linestyle": line.dash, "marker": line.marker}
    if line.marker == "D":
        axes.vlines(places, lows, highs, color=line.colour, linewidth=1)
        look |= {"linewidth": 0, "markersize": 5, "markerfacecolor": "none", "zorder": 4}
    elif lows != highs and len(places) > 1:
        axes.fill_between(places, lows, highs, color=line.colour, alpha=0.16, linewidth=0)
    if len(places) == 1 and line.label:
        look["marker"] = "o"
    width = 1.2 if line.dash == "dotted" else 1.9
    axes.plot(places, means, **{"linewidth": width, "markersize": 3.5, **look})


def _frame(axes: Axes, figure: Figure) -> None:
    axes.set(xlabel=figure.x, ylabel=figure.y)
    if figure.limits:
        axes.set_ylim(figure.limits)
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True))
    if "x" in figure.log:
        axes.set_xscale("log")
    if figure.ticks:
        axes.xaxis.set_major_locator(FixedLocator(list(figure.ticks)))
        axes.xaxis.set_ticklabels(list(figure.ticks.values()))
    if "y" in figure.log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
        axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.tick_params(length=0, pad=5)
    # Powers of two, where a balanced tree gains a level, have lines too.
    axes.grid(axis="both" if figure.rule else "y", linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if figure.rule:
        place, words = figure.rule
        axes.axvline(place, color=_INK, linewidth=1, linestyle=(0, (1, 2)))
        axes.text(place, 1.02, words, transform=axes.get_xaxis_transform(), ha="center")


def _write_names(axes: Axes, lines: Sequence[Line], height: int) -> None:
    """Write each line's name at its right end, moved apart where they would touch."""
    box = axes.get_window_extent()
    ends = []
    for line in lines:
        last = [*line.points][-1]
        x, y = axes.transData.transform((last, line.points[last].mean))
        if line.label and math.isfinite(y):
            inside = box.y0 < y < box.y1  # others are named where they leave the picture
            ends.append((min(max(y, box.y0), box.y1), x if inside else box.x1, line))
    ends.sort(key=lambda end: end[:2])
    places = apart([y for y, _, _ in ends], 14.0, 8.0, height - 8.0)
    for (y, x, line), place in zip(ends, places, strict=True):
        points = [(x, y), (box.x1 + 4, y), (box.x1 + 14, place)]
        look: Any = {"color": line.colour, "linestyle": line.dash, "linewidth": 1.2}
        axes.figure.add_artist(Line2D(*zip(*points, strict=True), transform=None, **look))
        axes.annotate(line.label, (box.x1 + 18, place), xycoords="figure pixels", va="center")


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
    svg = re.sub(r"<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.S)
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
