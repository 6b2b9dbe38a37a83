"""Whether the paper's order holds: every learned aggregator below every single fixed one."""

from collections.abc import Sequence

from treefold.lab.report.groups import Group
from treefold.lab.report.styles import LEARNED, Style
from treefold.lab.report.text import Link, Piece, Text, counted

METRIC = "log10_mse@average"
COMBINED = "pna"
"""Fixed aggregators side by side, of which the paper says that learned ones come near."""


def order_points(groups: Sequence[Group], styles: dict[str, Style]) -> list[Text]:
    """The order on the average over targets, and by how much it holds or does not; or nothing."""
    found = [
        (spread.mean, group)
        for group in groups
        if group.reported(METRIC) and (spread := group.metric(METRIC))  # only the paper's own rows
    ]
    learned = [item for item in found if styles[item[1].row].kind in LEARNED]
    single = [
        item
        for item in found
        if styles[item[1].row].kind == "fixed"
        and item[1].runs[0].option("aggregator", "name") != COMBINED
    ]
    if not learned or not single:
        return []
    pairs = [(ours[0] - theirs[0], ours, theirs) for ours in learned for theirs in single]
    failing = [pair for pair in pairs if pair[0] >= 0]
    gap, ours, theirs = max(pairs, key=lambda pair: pair[0])
    closest: list[Piece] = [*_named(*ours, styles), " and ", *_named(*theirs, styles)]
    if not failing:
        return [
            (
                "The paper's order holds: every learned aggregator is below every single fixed one "
                f"on the average, by {-gap:.2f} at least (",
                *closest,
                ").",
            )
        ]
    return [
        (
            "The paper's order, every learned aggregator below every single fixed one on the "
            f"average, holds for {len(pairs) - len(failing)} of {counted(len(pairs), 'pair')}; "
            f"furthest from it, by {gap:.2f}, are ",
            *closest,
            ".",
        )
    ]


def _named(mean: float, group: Group, styles: dict[str, Style]) -> list[Piece]:
    return [f"{styles[group.row].label} (", Link(f"{mean:.2f}", group.anchor), ")"]
