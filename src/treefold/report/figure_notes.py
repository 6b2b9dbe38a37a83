"""What stands under a figure: preset, epochs, seeds, and the records it is drawn from."""

from collections.abc import Sequence

from treefold.report.groups import Group
from treefold.report.styles import Style
from treefold.report.text import Link, counted


def seeds_of(group: Group) -> str:
    """How many seeds are folded, and how many runs where that differs."""
    num_seeds = len({run.record.seed for run in group.finished})
    seeds = counted(num_seeds, "seed")
    extra = len(group.finished) != num_seeds
    return f"{seeds} in {counted(len(group.finished), 'run')}" if extra else seeds


def epochs_of(group: Group) -> str:
    """The epochs that were really trained."""
    epochs = sorted({run.record.epochs for run in group.finished})
    return str(epochs[0]) if len(epochs) == 1 else f"{epochs[0]} to {epochs[-1]}"


def note_of(groups: Sequence[Group], styles: dict[str, Style]) -> str:
    """Preset, epochs and seeds, said once where they are the same for all."""
    finished = [group for group in groups if group.finished]
    facts = [f"{_epochs(group)}, {seeds_of(group)}" for group in finished]
    preset = f"preset {groups[0].variant}"
    if len(set(facts)) <= 1:
        return "; ".join([preset, *facts[:1]])
    each = zip(finished, facts, strict=True)
    return "; ".join([preset, *(f"{styles[g.row].label}: {fact}" for g, fact in each)])


def sources_of(groups: Sequence[Group], styles: dict[str, Style]) -> tuple[Link, ...]:
    """Links to the records of each group."""
    return tuple(Link(styles[group.row].label, group.anchor) for group in groups)


def _epochs(group: Group) -> str:
    epochs = epochs_of(group)
    return f"{epochs} epoch" if epochs == "1" else f"{epochs} epochs"
