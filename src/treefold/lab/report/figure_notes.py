"""What stands under a figure: preset, epochs, seeds, and the records it is drawn from."""

from collections import Counter
from collections.abc import Sequence

from treefold.lab.report.groups import Group
from treefold.lab.report.styles import Style
from treefold.lab.report.text import Link, counted


def effort_of(group: Group) -> str:
    """The epochs that were really trained, the seeds, and the runs where they are more."""
    epochs = sorted({run.record.epochs for run in group.finished})
    trained = (
        counted(epochs[0], "epoch") if len(epochs) == 1 else f"{epochs[0]}–{epochs[-1]} epochs"
    )
    num_seeds, num_runs = len({run.record.seed for run in group.finished}), len(group.finished)
    several = f" in {counted(num_runs, 'run')}" if num_runs != num_seeds else ""
    seeds = counted(num_seeds, "seed") + several
    # A timing trains nothing.
    return seeds if group.seconds_by_size() else f"{trained}, {seeds}"


def note_of(groups: Sequence[Group], styles: dict[str, Style]) -> str:
    """Preset, epochs and seeds: what holds for most, then the exceptions by name."""
    efforts = {group: effort_of(group) for group in groups if group.finished}
    usual = [effort for effort, _ in Counter(efforts.values()).most_common(1)]
    others = [
        f"{styles[group.row].label}: {effort}"
        for group, effort in efforts.items()
        if effort not in usual
    ]
    return "; ".join([f"preset {groups[0].variant}", *usual, *others])


def sources_of(groups: Sequence[Group], styles: dict[str, Style]) -> tuple[Link, ...]:
    """Links to the records of each group."""
    return tuple(Link(styles[group.row].label, group.anchor) for group in groups)
