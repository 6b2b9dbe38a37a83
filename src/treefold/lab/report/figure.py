"""A figure as data: what is drawn, said once, for the page and for the files."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from treefold.lab.report.published import Published
from treefold.lab.report.seed_stats import Spread
from treefold.lab.report.styles import Dash
from treefold.lab.report.text import Link, Text

Numbers: TypeAlias = tuple[float | int, ...]
Mode: TypeAlias = Literal["lines", "lines+markers", "markers"]


@dataclass(frozen=True)
class Axis:
    """What an axis measures; `ticks` with their `labels` where the choice matters."""

    title: str
    log: bool = False
    ticks: Numbers = ()
    labels: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None


def log_axis(title: str, lines: Iterable["Line"]) -> Axis:
    """A logarithmic axis that fits the lines, with ticks at 1, 2, 5, or powers of ten if many."""
    values = [y for line in lines for y in (*line.y, *line.low, *line.high) if y > 0]
    if not values:
        return Axis(title, log=True)
    low, high = min(values) / 1.15, max(values) * 1.15
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 1000 else (1,)
    ticks = [step * 10.0**power for power in powers for step in steps]
    shown = tuple(float(f"{tick:.3g}") for tick in ticks if low <= tick <= high)
    return Axis(title, True, shown, tuple(f"{tick:g}" for tick in shown), (low, high))


@dataclass(frozen=True)
class Line:
    """One curve, or with `markers` one kind of points; `low` and `high` are its range."""

    label: str
    x: Numbers
    y: Numbers
    colour: str
    low: Numbers = ()
    high: Numbers = ()
    dash: Dash = "solid"
    mode: Mode = "lines"
    in_legend: bool = True


@dataclass(frozen=True)
class Rule:
    """A vertical line across the figure."""

    x: float | int
    label: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure; `note` says preset, epochs and seeds, `sources` the records it is drawn from."""

    slug: str
    title: str
    note: str
    caption: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    rules: tuple[Rule, ...] = ()
    sources: tuple[Link, ...] = ()

    def source_text(self) -> Text:
        """The records as running text."""
        pieces: list[str | Link] = ["Records: "]
        for source in self.sources:
            pieces += [source, ", "]
        return (*pieces[:-1], ".") if self.sources else ()


def curve(
    label: str,
    points: Mapping[int, Spread] | Mapping[float, Spread],
    colour: str,
    dash: Dash = "solid",
    mode: Mode = "lines",
    positive: bool = False,
) -> Line | None:
    """A line through the means with the range over seeds; on a log axis only where `positive`."""
    shown = {x: s for x, s in sorted(points.items()) if s.low > 0 or not positive}
    if not shown:
        return None
    several = any(spread.count > 1 for spread in shown.values())
    return Line(
        label,
        tuple(shown),
        tuple(_short(spread.mean) for spread in shown.values()),
        colour,
        tuple(_short(spread.low) for spread in shown.values()) if several else (),
        tuple(_short(spread.high) for spread in shown.values()) if several else (),
        dash,
        mode,
    )


def published_points(
    label: str,
    points: Mapping[int, Published] | Mapping[float, Published],
    colour: str,
    in_legend: bool = True,
) -> Line | None:
    """What others have published, as points with their spread; None without any."""
    if not points:
        return None
    return Line(
        label,
        tuple(points),
        tuple(entry.value for entry in points.values()),
        colour,
        tuple(entry.low for entry in points.values()),
        tuple(entry.high for entry in points.values()),
        mode="markers",
        in_legend=in_legend,
    )


def slug_of(*parts: str) -> str:
    """The parts as a name for files and anchors, whatever they hold."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")[:80].strip("-")


def with_own_slugs(figures: Iterable[Figure]) -> list[Figure]:
    """The figures, numbered where two would have the same file name."""
    seen: dict[str, int] = {}
    result = []
    for figure in figures:
        seen[figure.slug] = count = seen.get(figure.slug, 0) + 1
        slug = figure.slug if count == 1 else f"{figure.slug}--{count}"
        result.append(Figure(**{**vars(figure), "slug": slug}))
    return result


def _short(value: float) -> float:
    # Five digits are more than a screen shows, and keep the page small.
    return float(f"{value:.5g}") if math.isfinite(value) else value
