"""Errors on graphs larger than in training, as in the paper's figure fig:pna_extrapolation."""

import re
from collections.abc import Sequence

from treefold.report.checks import RATIOS
from treefold.report.figure import Axis, Figure, Line, curve, slug_of
from treefold.report.figure_notes import note_of, sources_of
from treefold.report.groups import Group
from treefold.report.spread import Spread, fold
from treefold.report.styles import GREY, Style


def ratio_figure(groups: Sequence[Group], styles: dict[str, Style]) -> Figure | None:
    """One curve for each row over the splits with sizes in their names; None without any."""
    drawn = {group: found for group in groups if (found := ratios_of(group))}
    if not drawn:
        return None
    first = next(iter(drawn))
    sizes = {middle: words for found in drawn.values() for words, middle, _ in found}
    lines = [
        curve(styles[group.row].label, {middle: spread for _, middle, spread in found},
              styles[group.row].colour, styles[group.row].dash, "lines+markers")
        for group, found in drawn.items()
    ]  # fmt: skip
    ends = (min(sizes), max(sizes))
    constant = Line("constant answer", ends, (0.0, 0.0), GREY, dash="dot")
    return Figure(
        slug_of("ratio", first.experiment, first.variant),
        f"Error against graph size: {first.experiment}",
        note_of(list(drawn), styles),
        "The mean over the six targets of log10 of an error divided by that of the best constant "
        "answer in training: below 0 is better than knowing nothing of the graph.",
        Axis("nodes in the graph", ticks=tuple(sorted(sizes)),
             labels=tuple(sizes[middle] for middle in sorted(sizes))),
        Axis("log10 (error / error of a constant answer)"),
        tuple(line for line in (constant, *lines) if line),
        (),
        sources_of(list(drawn), styles),
    )  # fmt: skip


def ratios_of(group: Group) -> list[tuple[str, float, Spread]]:
    """Sizes in words, their middle, and the ratio over the seeds, the smallest graphs first."""
    found = []
    splits = {split for run in group.finished for split in run.record.metrics.get(RATIOS, {})}
    for split in splits:
        bounds = re.fullmatch(r".*?(\d+)-(\d+)", split)
        values = fold(run.record.metrics.get(RATIOS, {}).get(split) for run in group.finished)
        if bounds and values:
            low, high = map(int, bounds.groups())
            found.append((f"{low}–{high}", (low + high) / 2, values))
    return sorted(found, key=lambda entry: entry[1])
