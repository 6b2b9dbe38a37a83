"""The set experiments: every row of the paper's 2nd-minimum table, sweeps, and other tasks."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from treefold.aggr import AGGREGATORS
from treefold.lab.experiments.published import chosen_rows, compared
from treefold.lab.experiments.recipe import (
    AggregatorChoice,
    Evaluation,
    Experiment,
    Kind,
    Model,
    Reported,
    Training,
)
from treefold.lab.experiments.set_runner import SetRunner
from treefold.lab.tasks import SET_TASKS
from treefold.names import by_name

KINDS = {name: Kind(task, Model, Evaluation) for name, task in SET_TASKS.items()}
RUNNER = SetRunner

ALL_SIZES = tuple(range(1, 201))
BALANCED_SIZES = (2, 4, 8, 16, 32, 64, 128, 200, 500, 1000)
SOME_SIZES = (*range(1, 17), 20, 24, 32, 48, 64, 96, 128, 160, 200)


@dataclass(frozen=True)
class Preset:
    """An amount of everything, for all aggregators of an experiment alike."""

    training: Training
    evaluation: Evaluation
    model: Model = field(default_factory=Model)
    task: dict[str, Any] = field(default_factory=dict)
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Changes in the constructor of an aggregator, by name."""
    num_seeds: int = 1


# All learned monoids see random trees, which an associative operator does not mind; the law loss
# is a mean over channels, on a sample of nodes, and does not drown the task at the start.
_OURS: dict[str, dict[str, Any]] = {
    "binary-gru": {"bracketing": "random"},
    "binary-gru-assoc": {"bracketing": "random", "law_nodes": 64, "law_reduction": "mean"},
    "gated-selection": {"bracketing": "random"},
    "binary-mlp": {"bracketing": "random"},
}

_TRAINING = Training(
    epochs=20,
    batch_size=256,
    learning_rate=2e-3,
    optimizer="adamw",
    weight_decay=0.01,
    schedule="one-cycle",
    clip_norm=1.0,
)

PRESETS: dict[str, Preset] = {
    "smoke": Preset(
        training=Training(
            epochs=2, batch_size=64, learning_rate=2e-3, optimizer="adamw", schedule="one-cycle"
        ),
        evaluation=Evaluation(sizes=(*range(1, 17), 32, 200), balanced_sizes=(16, 200)),
        model=Model(channels=16),
        task={"num_train": 256, "num_validation": 64, "num_evaluation": 16},
        options=_OURS,
    ),
    "quick": Preset(
        training=_TRAINING,
        evaluation=Evaluation(sizes=SOME_SIZES),
        task={"num_evaluation": 512},
        options=_OURS,
    ),
    "standard": Preset(
        training=dataclasses.replace(_TRAINING, epochs=60),
        evaluation=Evaluation(sizes=ALL_SIZES, balanced_sizes=BALANCED_SIZES),
        options=_OURS,
        num_seeds=3,
    ),
    "paper": Preset(
        training=Training(epochs=1000, batch_size=32, learning_rate=1e-4),
        evaluation=Evaluation(sizes=ALL_SIZES, balanced_sizes=BALANCED_SIZES),
        num_seeds=3,
    ),
}

TABLE = "tab:2min_1k_baselines"
REPORTED: dict[str, dict[str, Reported]] = {
    name: {
        metric: Reported(value, spread, TABLE)
        for metric, (value, spread) in zip(
            ("accuracy@1-16", "accuracy@32", "accuracy@200"), numbers, strict=True
        )
    }
    for name, numbers in {
        "gru": ((0.996, 0.001), (0.998, 0.001), (0.912, 0.017)),
        "binary-gru-assoc": ((0.997, 0.002), (0.997, 0.002), (0.822, 0.064)),
        "binary-gru": ((0.997, 0.001), (0.992, 0.005), (0.443, 0.122)),
        "pna": ((0.961, 0.003), (0.794, 0.012), (0.110, 0.027)),
        "max": ((0.901, 0.007), (0.723, 0.025), (0.069, 0.039)),
        "sum": ((0.845, 0.010), (0.261, 0.020), (0.045, 0.011)),
    }.items()
}
"""The paper's 2nd-minimum table: mean and deviation over three runs."""

_EFFICIENCY = "subsec:2min, Efficiency; fig:2min_speedtest"
REPORTED_SECONDS: dict[str, dict[str, Reported]] = {
    name: {
        f"seconds_per_epoch@{size}": Reported(value, spread, _EFFICIENCY)
        for size, (value, spread) in by_size.items()
    }
    for name, by_size in {
        "gru": {20: (46.6, 0.5), 200: (397.2, 1.3)},
        "binary-gru-assoc": {20: (48.2, 0.4), 200: (79.4, 0.5)},
    }.items()
}
"""The paper's seconds per epoch of 2nd-minimum training, on a GPU, by the size of sets."""


@dataclass(frozen=True)
class Row:
    """One row of a table: an aggregator with its options, on a task."""

    task: str
    aggregator: str
    options: dict[str, Any] = field(default_factory=dict)
    reported: dict[str, Reported] = field(default_factory=dict)
    in_paper: bool = False
    """Departures from the paper's recipe are listed."""
    as_published: bool = False
    """No preset changes the aggregator's options."""


ROWS = tuple(REPORTED)
EXTRA_ROWS = ("gated-selection-general", "gated-selection", "oracle")
"""Rows beyond the paper's table, which are run if they are named."""
REPORTED_IN_TEXT = {
    "binary-gru": {
        "accuracy@200": Reported(0.287, 0.068, "subsec:2min, Out-of-distribution performance")
    }
}
"""Numbers in the paper's text that differ from those of its table."""

SWEEP = "second-minimum-lambda"
LAMBDAS = tuple(10.0**-power for power in range(8))
BEST_LAMBDA = 1.0
"""The best λ of the paper's sweep, and that of its table."""


def _row(task: str, name: str) -> Row:
    reported = REPORTED.get(name, {}) if task == "second-minimum" else {}
    return Row(task, name, reported=reported, in_paper=bool(reported))


_ONLY_COPIES = {"operator_options": {"writes": False}}
_ONLY_MEANS = {"operator_options": {"selects": False}}
_STRETCHED = {"operator_options": {"stretch": 0.1}}
_LAWS = {"associativity": 1.0, "law_nodes": 64, "law_reduction": "mean"}
_CONSISTENT = {"consistency": 0.5, "law_reduction": "mean"}
_ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "binary-gru-balanced": ("binary-gru", {"bracketing": "balanced"}),
    "binary-gru-consistent": ("binary-gru", _CONSISTENT),
    "binary-mlp": ("binary-mlp", {}),
    "gated-selection-balanced": ("gated-selection", {"bracketing": "balanced"}),
    "gated-selection-assoc": ("gated-selection", _LAWS),
    "gated-selection-consistent": ("gated-selection", _CONSISTENT),
    "gated-selection-copies": ("gated-selection", _ONLY_COPIES),
    "gated-selection-means": ("gated-selection", _ONLY_MEANS),
    "gated-selection-stretched": ("gated-selection", _STRETCHED),
}
"""Parts that may make a monoid hold on large sets: an aggregator and its options, by row."""


EXPERIMENTS: dict[str, dict[str, Row]] = {
    **{task: {name: _row(task, name) for name in ROWS} for task in SET_TASKS},
    # fig:2min_regularisation has no numbers to compare with, but a recipe to depart from.
    SWEEP: {
        f"binary-gru-assoc-{weight:.0e}": Row(
            "second-minimum", "binary-gru-assoc", {"associativity": weight}, in_paper=True
        )
        for weight in LAMBDAS
    },
    # The paper's own loss: summed over the channels and all nodes of balanced trees.
    "second-minimum-associativity": {
        "binary-gru": Row(
            "second-minimum",
            "binary-gru",
            reported=REPORTED["binary-gru"],
            in_paper=True,
            as_published=True,
        ),
        **{
            f"binary-gru-assoc-{weight:.0e}": Row(
                "second-minimum",
                "binary-gru-assoc",
                {"associativity": weight},
                REPORTED["binary-gru-assoc"] if weight == BEST_LAMBDA else {},
                in_paper=True,
                as_published=True,
            )
            for weight in (1.0, 1e-2, 1e-4)
        },
    },
    "generalisation": {
        name: Row("second-minimum", aggregator, options)
        for name, (aggregator, options) in _ABLATIONS.items()
    },
}
"""The rows of every experiment."""


def find(name: str, preset: str) -> list[Experiment]:
    """The experiments that `second-minimum`, or one row such as `second-minimum/gru`, names.

    Every aggregator of the registry is a row of a task.
    """
    experiment = name.partition("/")[0]
    others = (*EXTRA_ROWS, *AGGREGATORS) if experiment in SET_TASKS else ()
    extra = {row: _row(experiment, row) for row in others if row not in ROWS}
    rows = chosen_rows(name, EXPERIMENTS[experiment], extra)
    return [_experiment(each, row, preset) for each, row in rows.items()]


def _experiment(name: str, row: Row, preset_name: str) -> Experiment:
    preset = by_name(PRESETS, preset_name, "preset")
    if row.as_published:
        preset = dataclasses.replace(preset, options={})
    made, paper = _at(preset, name, row), _at(PRESETS["paper"], name, row)
    return compared(made, paper, row.reported, (_weight,)) if row.in_paper else made


def _weight(made: Experiment) -> str:
    """The meaning of λ here, if it is not the paper's."""
    options, channels = made.aggregator.options, made.model.channels
    if options.get("law_reduction") != "mean":
        return ""
    return (
        f"the law loss is a mean over {channels} channels; the paper has their sum, so that a "
        f"weight here is 1/{channels} of that weight there"
    )


def _at(preset: Preset, name: str, row: Row) -> Experiment:
    options = {**preset.options.get(row.aggregator, {}), **row.options}
    return Experiment(
        name=name,
        task=SET_TASKS[row.task](**preset.task),
        aggregator=AggregatorChoice(row.aggregator, options),
        model=preset.model,
        training=preset.training,
        evaluation=preset.evaluation,
    )
