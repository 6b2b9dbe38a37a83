"""Runs that are not finished, shown as what they are and averaged into nothing."""

from collections.abc import Sequence

from treefold.lab.report.checks import is_number
from treefold.lab.report.figure_training import planned_epochs
from treefold.lab.report.groups import Group
from treefold.lab.report.runs import Run
from treefold.lab.report.styles import Style
from treefold.lab.report.table import Column, Table
from treefold.lab.report.table_accuracy import PREFIX, in_words
from treefold.lab.report.text import Link, Text

_VALIDATION = "validation_accuracy"


def unfinished_table(groups: Sequence[Group], styles: dict[str, Style]) -> Table | None:
    """A row for each run that is running, was stopped, or failed."""
    shown = [(group, run) for group in groups for run in group.unfinished]
    if not shown:
        return None
    heads = ("experiment", "aggregator", "preset", "seed", "status", "epochs", "so far", "error")
    rows = tuple(
        (
            (group.experiment,),
            (styles[group.row].label,),
            (group.variant,),
            (Link(str(run.record.seed), group.anchor),),
            (run.record.status,),
            (f"{run.record.epochs} of {planned_epochs(run)}",),
            _so_far(group, run),
            (str(run.record.error or ""),),
        )
        for group, run in shown
    )
    caption = "These runs are in no mean, range or best of this page."
    return Table("Runs that are not finished", caption, tuple(map(Column, heads)), rows)


def _so_far(group: Group, run: Run) -> Text:
    pieces = []
    for name, value in run.record.metrics.items():
        if name.startswith(PREFIX) and is_number(value):
            theirs = group.reported(name)
            beside = f" (paper {theirs.value:.3f})" if theirs else ""
            pieces.append(f"{in_words(name)} {value:.3f}{beside}")
    validated = {row[_VALIDATION]: int(row["epoch"]) for row in run.log if _VALIDATION in row}
    if validated:
        best = max(validated)
        pieces.append(f"best validation {best:.3f} at epoch {validated[best]}")
    return (Link("; ".join(pieces), group.anchor),) if pieces else ()
