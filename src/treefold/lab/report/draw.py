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
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Affine2D

from treefold.lab.runs import Stat

CARD, WIDE, SPARK = (440, 280), (980, 400), (120, 30)
"""Widths and heights: two next to each other, one across the page, and one in a table."""
_INK, _FAINT = "#0a0b0c", "#0d0e0f"  # stand for what the page decides: text, and grid lines
_LOOK: Any = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), _FAINT),
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 11,
}
_NOTHING = dict.fromkeys(("Creator", "Date", "Format", "Type"))


class Line(NamedTuple):
    """Means with their ranges; with the marker "D" published points, which have no name."""

    label: str
    points: Mapping[Any, Stat]
    colour: str
    dash: str = "solid"
    marker: str = ""


class Figure(NamedTuple):
    """A figure as data: titles of its axes, and which of them are logarithmic (x, y, xy).

    `limits` are the ends of the y axis, `rule` is a line at a place of the x axis, with words.
    """

    slug: str
    title: str
    caption: str
    x: str
    y: str
    lines: Sequence[Line]
    log: str = ""
    limits: tuple[float, float] | None = None
    rule: tuple[float, str] | None = None


def draw(figure: Figure, size: tuple[int, int] = CARD) -> str:
    """The figure as SVG whose text has the colour around it, and whose grid has `--faint`.

    The lines are named to the right of a wide picture, below a card, which grows by them, and not
    at all in a spark, which has no axes either.
    """
    (width, height), labels = size, [line.label for line in figure.lines if line.label]
    left, right, top, bottom = 62.0, min(48 + 6.4 * max(map(len, labels)), 0.42 * width), 22, 44.0
    if size == SPARK:
        left = right = top = bottom = 2
    if size == CARD:
        right, bottom = 8, 52 + 16.5 * math.ceil(len(labels) / 2)
        height += round(bottom) - 44
    with matplotlib.rc_context({**_LOOK, "svg.hashsalt": f"{figure.slug}{size}"}):
        canvas = Canvas(figsize=(width / 72, height / 72), dpi=72, facecolor="none")
        shares = 1 - (left + right) / width, 1 - (top + bottom) / height
        axes = canvas.add_axes((left / width, bottom / height, *shares), facecolor="none")
        for line in figure.lines:
            _curve(axes, line)
        _frame(axes, figure)
        if size == SPARK:
            axes.axis("off")
        else:
            _legend(axes, figure.lines, size == CARD)
        buffer = io.StringIO()
        canvas.savefig(buffer, format="svg", metadata=_NOTHING)
    return _cleaned(buffer.getvalue(), figure.title, f"{width} {height}")


def _curve(axes: Axes, line: Line) -> None:
    places, stats = list(line.points), line.points.values()
    means, lows, highs = ([*ends] for ends in list(zip(*stats, strict=True))[:3])
    marker = line.marker or "o" * (len(places) == 1)
    look: dict[str, Any] = {"color": line.colour, "linestyle": line.dash, "marker": marker}
    if line.marker == "D":
        axes.vlines(places, lows, highs, color=line.colour, linewidth=1)
        look |= {"linewidth": 0, "markersize": 5, "markerfacecolor": "none", "zorder": 4}
    elif lows != highs and len(places) > 1:
        axes.fill_between(places, lows, highs, color=line.colour, alpha=0.16, linewidth=0)
    width = 1.2 if line.dash == "dotted" else 1.9
    axes.plot(places, means, **{"linewidth": width, "markersize": 3.5, **look})


def _frame(axes: Axes, figure: Figure) -> None:
    axes.set(xlabel=figure.x, ylabel=figure.y)
    if figure.limits:
        axes.set_ylim(figure.limits)
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True))
    if "x" in figure.log:  # a balanced tree gains a level at powers of two
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:,.0f}")
    if "y" in figure.log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
        axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.tick_params(length=0, pad=5)
    axes.grid(axis="both" if figure.rule else "y", linewidth=0.7)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if figure.rule:
        axes.axvline(figure.rule[0], color=_INK, linewidth=1, linestyle=(0, (1, 2)))
        above: Any = {"transform": axes.get_xaxis_transform(), "ha": "center"}
        axes.text(figure.rule[0], 1.02, figure.rule[1], **above)


def _legend(axes: Axes, lines: Sequence[Line], below: bool) -> None:
    """Name the lines, in the order in which they end at the right."""
    handles = dict(zip((line.label for line in lines), axes.lines, strict=False))
    ends = {line.label: line.points[[*line.points][-1]].mean for line in lines if line.label}
    order = sorted(ends, key=lambda label: -ends[label])
    look: dict[str, Any] = {"frameon": False, "handlelength": 1.4, "labelspacing": 0.35}
    look |= {"loc": "upper left", "borderpad": 0, "borderaxespad": 0, "columnspacing": 1.4}
    look |= {"ncols": 2 if below else 1, "bbox_to_anchor": (0.0, 0.0) if below else (1.02, 1.0)}
    if below:
        look["bbox_transform"] = axes.transAxes + Affine2D().translate(-50, -46)
    axes.legend([handles[label] for label in order], order, **look)


def _cleaned(svg: str, title: str, size: str) -> str:
    """Only what is drawn, in the page's colours, to a tenth of a pixel."""

    def rounded(numbers: re.Match[str]) -> str:
        return re.sub(r"\d+\.\d+", lambda each: f"{float(each[0]):.1f}", numbers[0])

    svg = re.sub(r"<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.S)
    svg = re.sub(r' id="[a-z]+[\da-z]*_\d+"', "", svg)
    svg = re.sub(r'(?<= )(?:d|x|y|transform)="[^"]+"', rounded, svg)
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><").strip()
    svg = svg.replace(_INK, "currentColor").replace(_FAINT, "var(--faint)")
    head = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    head += 'width="{}" height="{}" '.format(*size.split())
    head += f'viewBox="0 0 {size}" role="img" aria-label="{html.escape(title)}">'
    return re.sub(r"<svg [^>]*>", lambda _: head, svg, count=1)
