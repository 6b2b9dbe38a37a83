"""How long an epoch takes as sets grow, in a sentence."""

from collections.abc import Sequence

from treefold.report.groups import Group
from treefold.report.hardware import machines_of
from treefold.report.published import published_seconds
from treefold.report.styles import Style
from treefold.report.table_speed import sizes_to_show
from treefold.report.text import Link, Text


def speed_sentences(groups: Sequence[Group], styles: dict[str, Style]) -> list[Text]:
    """Seconds at the smallest and the largest size, ours and then the paper's."""
    measured = [group for group in groups if group.seconds_by_size()]
    if not measured:
        return []
    sizes = sizes_to_show(measured)
    first, last = sizes[0], sizes[-1]
    sentence: list[str | Link] = [
        f"{measured[0].experiment} (preset {measured[0].variant}; {machines_of(measured)}): "
        f"seconds per epoch at sets of {first} and of {last}: "
    ]
    for place, group in enumerate(measured):
        seconds = group.seconds_by_size()
        pair = " and ".join(f"{seconds[n].mean:.2f}" for n in (first, last) if n in seconds)
        sentence += ["; " if place else "", f"{styles[group.row].label} "]
        sentence.append(Link(pair, group.anchor))
        theirs = published_seconds(group)
        if first in theirs and last in theirs:
            sentence.append(f" (paper's GPU: {theirs[first].value} and {theirs[last].value})")
    return [(*sentence, ".")]
