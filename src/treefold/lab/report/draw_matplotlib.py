"""A figure as PNG and SVG, for papers, slides and places without JavaScript."""

import io
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullFormatter, NullLocator

from treefold.lab.report.figure import Axis, Figure, Line
from treefold.lab.report.styles import GREY

_DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.6))}
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "treefold",  # the same names inside each time
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine draws the same
    "font.size": 9,
}


def draw_files(figure: Figure) -> dict[str, bytes]:
    """The contents of the files, by extension; the same for the same figure."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        canvas = _draw(figure)
        return {
            "png": _saved(canvas, format="png", dpi=150, metadata={"Software": None}),
            "svg": _saved(canvas, format="svg", metadata={"Date": None, "Creator": None}),
        }


def _draw(figure: Figure) -> Canvas:
    canvas = Canvas(figsize=(7.6, 5.2), layout="constrained")
    axes = canvas.add_subplot()
    for line in figure.lines:
        _draw_line(axes, line)
    for rule in figure.rules:
        axes.axvline(rule.x, color=GREY, linewidth=1.2, linestyle=_DASHES["dash"])
        where = (rule.x, 1.0)
        frame = axes.get_xaxis_transform()
        axes.annotate(rule.label, where, (0, 3), frame, "offset points", ha="center", fontsize=8)
    _set_axis(axes, "x", figure.x)
    _set_axis(axes, "y", figure.y)
    axes.grid(True, color="#DDDDDD", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    canvas.suptitle(figure.title, x=0.02, ha="left", fontsize=11, fontweight="bold")
    note = "\n".join(textwrap.wrap(figure.note, 110)[:3])
    axes.set_title(note, loc="left", fontsize=8, color="#555555", pad=18 if figure.rules else 6)
    _legend(canvas, axes, [line for line in figure.lines if line.in_legend])
    return canvas


def _draw_line(axes: Axes, line: Line) -> None:
    label = _shown(line.label)
    if line.mode == "markers":
        _draw_points(axes, line, label)
        return
    marker = "o" if "markers" in line.mode else ""
    style = _DASHES[line.dash]
    axes.plot(line.x, line.y, color=line.colour, ls=style, marker=marker, ms=4, lw=1.6, label=label)
    if line.low:
        axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.18, linewidth=0)


def _draw_points(axes: Axes, line: Line, label: str) -> None:
    below = [y - low for y, low in zip(line.y, line.low, strict=True)]
    above = [high - y for y, high in zip(line.y, line.high, strict=True)]
    axes.errorbar(
        line.x,
        line.y,
        (below, above),
        color=line.colour,
        fmt="D",
        markersize=5.5,
        markerfacecolor="none",
        elinewidth=1,
        capsize=2,
        label=label,
        zorder=3,
    )


def _set_axis(axes: Axes, which: str, axis: Axis) -> None:
    side = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}label": axis.title})
    if axis.log:
        axes.set(**{f"{which}scale": "log"})
        side.set_minor_formatter(NullFormatter())
    if axis.ticks:
        side.set_ticks(axis.ticks, [_shown(label) for label in axis.labels])
        side.set_minor_locator(NullLocator())
    if axis.limits:
        axes.set(**{f"{which}lim": axis.limits})


def _legend(canvas: Canvas, axes: Axes, lines: Sequence[Line]) -> None:
    labels = {_shown(line.label) for line in lines}
    handles, names = axes.get_legend_handles_labels()
    kept = [(h, name) for h, name in zip(handles, names, strict=True) if name in labels]
    widest = max(map(len, labels), default=0)
    columns = max(1, min(4, 110 // (widest + 8)))
    canvas.legend(
        [handle for handle, _ in kept],
        [name for _, name in kept],
        loc="outside lower left",
        ncols=columns,
        frameon=False,
        fontsize=8,
    )


def _shown(label: str) -> str:
    # Matplotlib leaves out of the legend what begins with an underscore.
    return f" {label}" if label.startswith("_") else label


def _saved(canvas: Canvas, **options: Any) -> bytes:
    buffer = io.BytesIO()
    canvas.savefig(buffer, **options)
    return buffer.getvalue()
