"""How long an epoch takes as sets grow, in words."""

from collections.abc import Sequence

from treefold.lab.report.groups import Group
from treefold.lab.report.hardware import machines_of
from treefold.lab.report.published_seconds import published_seconds
from treefold.lab.report.styles import Style
from treefold.lab.report.table_speed import sizes_to_show
from treefold.lab.report.text import Link, Piece, Text


def speed_opening(groups: Sequence[Group]) -> Text:
    """What was measured, and on which machine."""
    measured = [group for group in groups if group.seconds_by_size()]
    sizes = sizes_to_show(measured)
    where = f"preset {measured[0].variant}; {machines_of(measured)}"
    what = f"seconds per epoch at sets of {sizes[0]} and of {sizes[-1]}."
    return (f"{measured[0].experiment} ({where}): {what}",)


def speed_points(groups: Sequence[Group], styles: dict[str, Style]) -> list[Text]:
    """For each aggregator the seconds at the smallest and the largest size, and the paper's."""
    measured = [group for group in groups if group.seconds_by_size()]
    return [_point(group, sizes_to_show(measured), styles[group.row]) for group in measured]


def _point(group: Group, sizes: Sequence[int], style: Style) -> Text:
    ours, theirs = group.seconds_by_size(), published_seconds(group)
    ends = (sizes[0], sizes[-1])
    words = " and ".join(f"{ours[size].mean:.2f}" if size in ours else "–" for size in ends)
    pieces: list[Piece] = [f"{style.label}: ", Link(words, group.anchor)]
    if all(size in theirs for size in ends):
        pieces.append(f"; the paper's GPU: {theirs[ends[0]].value} and {theirs[ends[1]].value}")
    return (*pieces, ".")
