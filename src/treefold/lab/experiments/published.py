"""Published numbers for a recipe, and its departures from the published recipe."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from treefold.lab.experiments.recipe import Experiment, Reported
from treefold.names import by_name

T = TypeVar("T")

Note = str | Callable[[Experiment], str]
"""A departure in words, or a function that gives it for a recipe; empty if there is none."""
_DATA = ("variant", "seed")


def compared(
    made: Experiment,
    paper: Experiment,
    reported: dict[str, Reported],
    notes: Sequence[Note] = (),
) -> Experiment:
    """The experiment with published numbers and its departures, which overrides bring up to date.

    Another aggregator has no published numbers, nor has a task that asks something else than the
    paper's, not only on other data.
    """
    restate = partial(_restated, paper=paper, reported=reported, notes=tuple(notes))
    return restate(dataclasses.replace(made, restate=restate))


def _restated(
    made: Experiment, paper: Experiment, reported: dict[str, Reported], notes: tuple[Note, ...]
) -> Experiment:
    stated = [note if isinstance(note, str) else note(made) for note in notes]
    return dataclasses.replace(
        made,
        reported=reported if _is_the_same(made, paper) else {},
        departures=(*filter(None, stated), *differences(made, paper)),
    )


def _is_the_same(made: Experiment, paper: Experiment) -> bool:
    """True if both ask the same question of the same aggregator."""
    return made.aggregator.name == paper.aggregator.name and _question(made.task) == _question(
        paper.task
    )


def _question(task: Any) -> dict[str, Any]:
    """The fields of a task that are not about its data."""
    return {
        entry.name: getattr(task, entry.name)
        for entry in dataclasses.fields(task)
        if not entry.name.startswith("num_") and entry.name not in _DATA
    }


def differences(made: Experiment, paper: Experiment) -> list[str]:
    """The departures of a recipe from the paper's, in words, found by comparing the two."""
    found = []
    for part in ("task", "aggregator", "model", "training"):
        for entry in dataclasses.fields(getattr(made, part)):
            value, published = (getattr(getattr(e, part), entry.name) for e in (made, paper))
            if value != published:
                found.append(f"{part}.{entry.name} is {value}; the paper has {published}")
    return found


def chosen_rows(name: str, table: Mapping[str, T], extra: Mapping[str, T]) -> dict[str, T]:
    """All rows of a table that `zinc` names, or the one that `zinc/gru` does, by full name."""
    experiment, _, row = name.partition("/")
    every = {**table, **extra}
    rows = {row: by_name(every, row, f"row of {experiment}")} if row else table
    return {f"{experiment}/{each}": entry for each, entry in rows.items()}
