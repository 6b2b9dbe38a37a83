"""Accuracy against set size where every answer is as likely as the others."""

from collections.abc import Sequence

from treefold.lab.report.checks import BALANCED_BY_SIZE
from treefold.lab.report.figure import Axis, Figure, Rule, curve, slug_of
from treefold.lab.report.figure_accuracy import largest_in_training, size_ticks
from treefold.lab.report.figure_notes import note_of, sources_of
from treefold.lab.report.groups import Group
from treefold.lab.report.styles import Style


def balanced_figure(groups: Sequence[Group], styles: dict[str, Style]) -> Figure | None:
    """One curve for each aggregator, with its range over seeds; None without such metrics."""
    drawn = [g for g in groups if g.accuracy_by_size(BALANCED_BY_SIZE) and not g.is_sweep]
    if not drawn:
        return None
    first, largest = drawn[0], largest_in_training(drawn[0])
    sizes = sorted({size for group in drawn for size in group.accuracy_by_size(BALANCED_BY_SIZE)})
    lines = (
        curve(
            styles[group.row].label,
            group.accuracy_by_size(BALANCED_BY_SIZE),
            styles[group.row].colour,
            styles[group.row].dash,
        )
        for group in drawn
    )
    return Figure(
        slug_of("balanced", first.experiment, first.variant),
        f"Accuracy on sets with evenly spread answers: {first.experiment}",
        note_of(drawn, styles),
        "The answer is drawn first and the set made around it, so that no answer is right by "
        "being common: among uniform integers the answers crowd together as sets grow. Networks "
        "were trained on uniform integers.",
        Axis("integers in the set", True, *size_ticks(sizes)),
        Axis("accuracy", limits=(-0.02, 1.03)),
        tuple(line for line in lines if line),
        tuple([Rule(largest, f"largest in training: {largest}")] if largest else []),
        sources_of(drawn, styles),
    )
