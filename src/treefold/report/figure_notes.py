"""What stands under a figure: preset, epochs, seeds, and the records it is drawn from."""

from collections.abc import Sequence

from treefold.report.groups import Group
from treefold.report.styles import Style
from treefold.report.text import Link, counted


def effort_of(group: Group) -> str:
    """The epochs that were really trained, the seeds, and the runs where they are more."""
    epochs = sorted({run.record.epochs for run in group.finished})
    trained = (
        counted(epochs[0], "epoch") if len(epochs) == 1 else f"{epochs[0]}–{epochs[-1]} epochs"
    )
    num_seeds, num_runs = len({run.record.seed for run in group.finished}), len(group.finished)
    repeated = f" in {counted(num_runs, 'run')}" if num_runs != num_seeds else ""
    return f"{trained}, {counted(num_seeds, 'seed')}{repeated}"


def note_of(groups: Sequence[Group], styles: dict[str, Style]) -> str:
    """Preset, epochs and seeds, said once where they are the same for all."""
    finished = [group for group in groups if group.finished]
    facts = [effort_of(group) for group in finished]
    preset = f"preset {groups[0].variant}"
    if len(set(facts)) <= 1:
        return "; ".join([preset, *facts[:1]])
    each = zip(finished, facts, strict=True)
    return "; ".join([preset, *(f"{styles[g.row].label}: {fact}" for g, fact in each)])


def sources_of(groups: Sequence[Group], styles: dict[str, Style]) -> tuple[Link, ...]:
    """Links to the records of each group."""
    return tuple(Link(styles[group.row].label, group.anchor) for group in groups)
