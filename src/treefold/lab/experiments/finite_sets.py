"""Learned monoids with finitely many states, to be certified: tasks, and what each idea gives."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from treefold.lab.experiments.published import chosen_rows
from treefold.lab.experiments.recipe import (
    AggregatorChoice,
    Evaluation,
    Experiment,
    Kind,
    Model,
    Training,
)
from treefold.lab.experiments.set_runner import SetRunner
from treefold.lab.tasks import SET_TASKS
from treefold.names import by_name

KINDS: dict[str, Kind] = {}
"""Tasks are those of the set experiments."""
RUNNER = SetRunner

EVERY_KIND = ((1, 1), (2, 1), (3, 1), (0, 2), (0, 3), (0, 5))

_COUNTING = Training(
    epochs=16,
    batch_size=512,
    learning_rate=1e-2,
    optimizer="adamw",
    schedule="cosine",
    anneal_from=0.3,
    hard_from=0.75,
    last_slope=4.0,
    noise=0.3,
)
_SELECTION = Training(
    epochs=60,
    batch_size=256,
    learning_rate=2e-3,
    optimizer="adamw",
    weight_decay=0.01,
    schedule="one-cycle",
    clip_norm=1.0,
    anneal_from=0.3,
    hard_from=0.75,
    last_slope=20.0,
    noise=0.3,
)
_EVALUATION = Evaluation(
    sizes=(*range(1, 17), 32, 200, 1000), balanced_sizes=(16, 200, 1000, 16_384)
)


@dataclass(frozen=True)
class Row:
    """A task, and how its finite states are learned."""

    task: str
    task_options: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[tuple[int, int], ...] = ()
    """The kinds of counters; none for finite selection."""
    training: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)

    def experiment(self, name: str, preset: str) -> Experiment:
        """The recipe in full."""
        small = by_name(PRESETS, preset, "preset")
        training = dataclasses.replace(_COUNTING if self.kinds else _SELECTION, **self.training)
        model = Model(counting=True) if self.kinds else Model(channels=64)
        kinds = [list(kind) for kind in self.kinds]
        return Experiment(
            name=name,
            task=SET_TASKS[self.task](**{**self.task_options, **small.task}),
            aggregator=AggregatorChoice("finite-counters", {"kinds": kinds})
            if kinds
            else AggregatorChoice("finite-selection"),
            model=dataclasses.replace(model, **{**self.model, **small.model}),
            training=dataclasses.replace(training, **small.training),
            evaluation=dataclasses.replace(_EVALUATION, **small.evaluation),
        )


@dataclass(frozen=True)
class Preset:
    """Changes that make every row smaller."""

    task: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    evaluation: dict[str, Any] = field(default_factory=dict)
    num_seeds: int = 1


PRESETS = {
    "smoke": Preset(
        task={"bits": 2, "num_train": 2048, "num_validation": 64, "num_evaluation": 16},
        training={"epochs": 8, "batch_size": 32, "learning_rate": 5e-2},
        evaluation={"sizes": (*range(1, 17), 32, 200), "balanced_sizes": (16, 200)},
    ),
    "standard": Preset(num_seeds=3),
}

_FIVE = {"bits": 5}
_EASY = {"bits": 3, "num_train": 16_384}
"""Few values, sets and channels: whoever compares ideas needs many runs."""
_SHORT, _NARROW = {"hard_from": 0.6}, {"channels": 32}
_TO_TWO, _TO_THREE, _AROUND_TWO = ((2, 1),), ((3, 1),), ((0, 2),)
EXPERIMENTS = {
    "finite": {
        "parity": Row("parity", kinds=_AROUND_TWO),
        "xor": Row("xor", kinds=_AROUND_TWO),
        "count-modulo": Row("count-modulo", kinds=((0, 5),)),
        "bitwise-or": Row("bitwise-or", kinds=((1, 1),)),
        "second-minimum": Row("second-minimum", kinds=_TO_TWO),
        "second-minimum-5": Row("second-minimum", _FIVE, _TO_TWO),
        "third-minimum-5": Row("second-minimum", {**_FIVE, "k": 3}, _TO_THREE),
    },
    "finite-ideas": {
        "counters-of-every-kind": Row("second-minimum", _FIVE, EVERY_KIND),
        "counters-hard-at-once": Row(
            "second-minimum", _FIVE, _TO_TWO, training={"anneal_from": 0.0, "hard_from": 0.0}
        ),
        "counters-without-questions": Row(
            "second-minimum", _FIVE, _TO_TWO, model={"counting": False, "channels": 128}
        ),
        "selection": Row("second-minimum", _EASY, training=_SHORT, model=_NARROW),
        "selection-taught": Row(
            "second-minimum",
            _EASY,
            training={**_SHORT, "counterexamples": 256},
            model=_NARROW,
        ),
        "selection-hard-at-once": Row(
            "second-minimum",
            _EASY,
            training={**_SHORT, "anneal_from": 0.0, "hard_from": 0.0},
            model=_NARROW,
        ),
        "selection-never-hard": Row(
            "second-minimum", _EASY, training={**_SHORT, "hard_from": 1.0}, model=_NARROW
        ),
    },
}
"""The rows of every experiment: tasks, and 2nd-minimum without one idea or the other."""


def find(name: str, preset: str) -> list[Experiment]:
    """The experiments that `finite`, or one row such as `finite/xor`, names."""
    rows = EXPERIMENTS[name.partition("/")[0]]
    return [row.experiment(each, preset) for each, row in chosen_rows(name, rows, {}).items()]
