"""Departures from the published recipe, as numbered notes under a table."""

from collections.abc import Sequence

from treefold.lab.report.groups import Group
from treefold.lab.report.table import Column
from treefold.lab.report.text import Text


def notes_of(groups: Sequence[Group]) -> list[str]:
    """Each departure once, in the order of the rows."""
    return list(dict.fromkeys(departure for group in groups for departure in group.departures))


def note_columns(notes: Sequence[str]) -> list[Column]:
    """A column for the numbers of the notes, if there are any."""
    return [Column("notes")] if notes else []


def note_cells(group: Group, notes: Sequence[str]) -> list[Text]:
    """The numbers of the notes that concern a row."""
    numbers = sorted(notes.index(departure) + 1 for departure in group.departures)
    return [(in_ranges(numbers),)] if notes else []


def in_ranges(numbers: Sequence[int]) -> str:
    """1–3, 7 for 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
