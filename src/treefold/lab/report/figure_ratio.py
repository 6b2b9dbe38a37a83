"""Errors on graphs larger than in training, as in the paper's figure fig:pna_extrapolation.

The paper does not say how it averages over the six targets, so both ways are drawn.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from treefold.lab.report.checks import RATIOS, RATIOS_OF_MEANS
from treefold.lab.report.figure import Axis, Figure, Line, curve, published_points, slug_of
from treefold.lab.report.figure_notes import note_of, sources_of
from treefold.lab.report.groups import Group
from treefold.lab.report.published_ratios import SOURCE, published_ratios
from treefold.lab.report.seed_stats import Spread, fold
from treefold.lab.report.styles import GREY, Style

HIGHEST = 1.0
"""What is ten times as wrong as a constant answer leaves the picture, so that the rest is seen."""


class Reading(NamedTuple):
    """One way to average over targets: the slug and title of its figure, and how it is said."""

    slug: str
    title: str
    sentence: str


READINGS = {
    RATIOS: Reading(
        "ratio",
        "Error against graph size",
        "The mean over the six targets of log10 of an error divided by that of",
    ),
    RATIOS_OF_MEANS: Reading(
        "ratio-of-means",
        "Error against graph size, means over targets",
        "log10 of the mean error over the six targets divided by that of",
    ),
}


def ratio_figures(groups: Sequence[Group], styles: dict[str, Style]) -> list[Figure]:
    """Both readings of the figure, as far as there are numbers for them."""
    found = (_figure(groups, styles, metric) for metric in READINGS)
    return [figure for figure in found if figure]


def _figure(groups: Sequence[Group], styles: dict[str, Style], metric: str) -> Figure | None:
    """One curve for each row over the splits with sizes in their names; None without any."""
    drawn = {group: found for group in groups if (found := ratios_of(group, metric))}
    if not drawn:
        return None
    first = next(iter(drawn))
    sizes = {middle: words for found in drawn.values() for words, middle, _ in found}
    lines = [
        curve(styles[group.row].label, {middle: spread for _, middle, spread in found},
              styles[group.row].colour, styles[group.row].dash, "lines+markers")
        for group, found in drawn.items()
    ]  # fmt: skip
    published = [_published(group, styles[group.row], sizes) for group in drawn]
    ends = (min(sizes), max(sizes))
    constant = Line("constant answer", ends, (0.0, 0.0), GREY, dash="dot")
    shown = [line for line in (constant, *lines, *published) if line]
    reading = READINGS[metric]
    return Figure(
        slug_of(reading.slug, first.experiment, first.variant),
        f"{reading.title}: {first.experiment}",
        note_of(list(drawn), styles),
        " ".join([*_caption(reading.sentence, list(drawn), any(published)), *_beyond(shown)]),
        Axis("nodes in the graph", ticks=tuple(sorted(sizes)),
             labels=tuple(sizes[middle] for middle in sorted(sizes))),
        Axis("log10 (error / error of a constant answer)", limits=_limits(shown)),
        tuple(shown),
        (),
        sources_of(list(drawn), styles),
    )  # fmt: skip


def _caption(sentence: str, groups: Sequence[Group], has_published: bool) -> list[str]:
    sentences = [
        f"{sentence} the best constant answer in training: below 0 is better than "
        "knowing nothing of the graph."
    ]
    tasks = [group.runs[0].record.recipe.get("task", {}) for group in groups]
    variants = sorted({task["variant"] for task in tasks if "variant" in task})
    if variants:
        sentences.append(f"Graphs: {', '.join(variants)}.")
    if has_published:
        sentences.append(f"Diamonds are PNA's, {SOURCE}, whichever reading they are of.")
    return sentences


def _limits(lines: Sequence[Line]) -> tuple[float, float]:
    values = [y for line in lines for y in (*line.y, *line.low, *line.high)]
    low, high = min(values), min(max(values), HIGHEST)
    margin = (high - low or 1.0) / 20
    return low - margin, high + margin


def _beyond(lines: Sequence[Line]) -> list[str]:
    """What leaves the picture at the top, each in a sentence with the highest it gets."""
    tops = {line.label: max(line.y) for line in lines if max(line.y) > HIGHEST}
    return [f"{label} goes beyond the top, to {top:.3g}." for label, top in tops.items()]


def _published(group: Group, style: Style, sizes: dict[float, str]) -> Line | None:
    found = published_ratios(group.experiment, group.row)
    points = {middle: entry for middle, entry in found.items() if middle in sizes}
    return published_points(f"{style.label}, PNA's", points, style.colour, in_legend=False)


def ratios_of(group: Group, metric: str) -> list[tuple[str, float, Spread]]:
    """Sizes in words, their middle, and the ratio over the seeds, the smallest graphs first."""
    found = []
    splits = {split for run in group.finished for split in run.record.metrics.get(metric, {})}
    for split in splits:
        bounds = re.fullmatch(r".*?(\d+)-(\d+)", split)
        values = fold(run.record.metrics.get(metric, {}).get(split) for run in group.finished)
        if bounds and values:
            low, high = map(int, bounds.groups())
            found.append((f"{low}–{high}", (low + high) / 2, values))
    return sorted(found, key=lambda entry: entry[1])
