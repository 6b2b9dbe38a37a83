"""What a recipe is compared with: published numbers, and where it leaves the published recipe."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from treefold.lab.experiments.recipe import Experiment, Reported

Note = str | Callable[[Experiment], str]
"""A departure in words, or what gives it for the recipe as it is; empty if there is none."""
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
    said = [note if isinstance(note, str) else note(made) for note in notes]
    return dataclasses.replace(
        made,
        reported=reported if _is_the_same(made, paper) else {},
        departures=(*filter(None, said), *differences(made, paper)),
    )


def _is_the_same(made: Experiment, paper: Experiment) -> bool:
    """Whether both ask the same question of the same aggregator."""
    return made.aggregator.name == paper.aggregator.name and _question(made.task) == _question(
        paper.task
    )


def _question(task: Any) -> dict[str, Any]:
    """What a task asks, whatever the data it asks it of."""
    return {
        entry.name: getattr(task, entry.name)
        for entry in dataclasses.fields(task)
        if not entry.name.startswith("num_") and entry.name not in _DATA
    }


def differences(made: Experiment, paper: Experiment) -> list[str]:
    """Where a recipe leaves the paper's, in words, found by comparing the two."""
    found = []
    for part in ("task", "aggregator", "model", "training"):
        for entry in dataclasses.fields(getattr(made, part)):
            value, published = (getattr(getattr(e, part), entry.name) for e in (made, paper))
            if value != published:
                found.append(f"{part}.{entry.name} is {value}; the paper has {published}")
    return found
