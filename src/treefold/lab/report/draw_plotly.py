"""A figure as plotly's JSON: interactive, for the page, in light and in dark."""

import html
from math import log10
from typing import Any

from treefold.lab.report.figure import Axis, Figure, Line
from treefold.lab.report.styles import GREY, rgb

_GRID = "rgba(128,128,128,0.22)"
_DASHES = {"solid": "solid", "dash": "8px,3px", "dot": "2px,3px"}


def plotly_figure(figure: Figure) -> dict[str, Any]:
    """`data` and `layout` for `Plotly.newPlot`; the page adds the colour of the text."""
    bands = [_band(line) for line in figure.lines if line.low and line.mode != "markers"]
    lines = [_trace(line, _digits(figure.y)) for line in figure.lines]
    return {"data": bands + lines, "layout": _layout(figure)}


def _trace(line: Line, digits: str) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": _plain(line.label),
        "legendgroup": _plain(line.label),
        "mode": line.mode,
        "x": list(line.x),
        "y": list(line.y),
        "line": {"color": line.colour, "width": 2, "dash": _DASHES[line.dash]},
        "marker": {"color": line.colour, "size": 7},
        "showlegend": line.in_legend,
        "hovertemplate": f"%{{y:{digits}}}",
    }
    if line.mode == "markers":
        trace["marker"] = {
            "color": line.colour,
            "size": 10,
            "symbol": "diamond-open",
            "line": {"width": 2},
        }
    if line.low:
        trace["customdata"] = [list(pair) for pair in zip(line.low, line.high, strict=True)]
        extent = f"%{{customdata[0]:{digits}}} to %{{customdata[1]:{digits}}}"
        trace["hovertemplate"] += f" ({extent})"
    if line.low and line.mode == "markers":
        pairs = list(zip(line.low, line.y, line.high, strict=True))
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [_short(high - y) for _, y, high in pairs],
            "arrayminus": [_short(y - low) for low, y, _ in pairs],
            "color": line.colour,
            "thickness": 1,
            "width": 3,
        }
    return trace


def _band(line: Line) -> dict[str, Any]:
    """The range as an area: along the top, and back along the bottom."""
    return {
        "type": "scatter",
        "mode": "lines",
        "legendgroup": _plain(line.label),
        "x": [*line.x, *reversed(line.x)],
        "y": [*line.high, *reversed(line.low)],
        "fill": "toself",
        "fillcolor": "rgba({},{},{},0.18)".format(*rgb(line.colour)),
        "line": {"width": 0, "color": line.colour},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _layout(figure: Figure) -> dict[str, Any]:
    return {
        "xaxis": _axis(figure.x) | {"tickangle": 0},
        "yaxis": _axis(figure.y),
        "hovermode": "x unified",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 64, "r": 16, "t": 48, "b": 52},
        "height": 500,
        "legend": {"orientation": "h", "yanchor": "top", "y": -0.17, "x": 0},
        "shapes": [
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": rule.x,
                "x1": rule.x,
                "y0": 0,
                "y1": 1,
                "line": {"color": GREY, "width": 1.5, "dash": "dash"},
            }
            for rule in figure.rules
        ],
        "annotations": [
            {
                # Plotly wants the logarithm here, though not for the line above.
                "x": log10(rule.x) if figure.x.log else rule.x,
                "xref": "x",
                "yref": "paper",
                "y": 1,
                "yanchor": "bottom",
                "showarrow": False,
                "text": _plain(rule.label),
            }
            for rule in figure.rules
            if rule.label
        ],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    result: dict[str, Any] = {
        "title": {"text": _plain(axis.title), "standoff": 8},
        "type": "log" if axis.log else "linear",
        "gridcolor": _GRID,
        "linecolor": GREY,
        "zeroline": False,
        "automargin": True,
    }
    if axis.ticks:
        result |= {"tickmode": "array", "tickvals": list(axis.ticks)}
        result["ticktext"] = [_plain(label) for label in axis.labels]
    if axis.limits:
        low, high = axis.limits
        result["range"] = [log10(low), log10(high)] if axis.log else [low, high]
    return result


def _digits(axis: Axis) -> str:
    return ".3g" if axis.log else ".3f"


def _plain(words: str) -> str:
    # Plotly reads a subset of HTML in every text.
    return html.escape(words, quote=False)


def _short(value: float) -> float:
    return float(f"{value:.5g}")
