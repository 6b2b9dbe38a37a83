"""The real-world benchmark: every column of the paper's figure, and all its rows of aggregators."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from treefold.lab.experiments.published import chosen_rows, compared
from treefold.lab.experiments.realworld_published import REPORTED
from treefold.lab.experiments.realworld_runner import RealWorldRunner
from treefold.lab.experiments.recipe import (
    AggregatorChoice,
    Experiment,
    GraphEvaluation,
    Kind,
    PlainModel,
    TowerModel,
    Training,
)
from treefold.lab.tasks import CIFAR10, MNIST, ZINC, GraphTask, MolHIV
from treefold.names import by_name

KINDS = {
    **{task.name: Kind(task, TowerModel, GraphEvaluation) for task in (ZINC, MNIST, CIFAR10)},
    MolHIV.name: Kind(MolHIV, PlainModel, GraphEvaluation),
}
RUNNER = RealWorldRunner

Changes = Mapping[str, Any]
"""Fields of a recipe's part that are not as published, by name."""


@dataclass(frozen=True)
class Preset:
    """Departures from the published recipe; all else is as published."""

    training: Changes = field(default_factory=dict)
    by_task: Mapping[str, Changes] = field(default_factory=dict)
    """In training too, by the name of the task: they differ in how much there is to go through."""
    towers: Changes = field(default_factory=dict)
    """In the model of fixed rows with towers."""
    learned: Mapping[str, Changes] = field(default_factory=dict)
    """In the model of learned rows with towers, by the name of the task."""
    plain: Changes = field(default_factory=dict)
    """In the model without towers."""
    task: Changes = field(default_factory=dict)
    options: Mapping[str, Changes] = field(default_factory=dict)
    """In the constructor of an aggregator, by name."""
    evaluation: GraphEvaluation = field(default_factory=lambda: GraphEvaluation(("test",)))
    num_seeds: int = 1


# The law loss is added once for each layer and tower: a mean over channels, on a sample of nodes,
# with a small weight does not drown the task.
_OURS = {"binary-gru-assoc": {"associativity": 0.01, "law_nodes": 64, "law_reduction": "mean"}}

_QUICKER = {
    "batch_size": 64,
    "learning_rate": 2e-3,
    "schedule": "one-cycle",
    "clip_norm": 1.0,
    "plateau_patience": 5,
    "min_learning_rate": 0.0,
}

# 10,000 images are 156 batches of 64: too few steps to learn from in minutes.
_SUPERPIXELS = {"batch_size": 16}

_TASKS = ("zinc", "molhiv", "mnist", "cifar10")


def _one_tower(channels: int, out_channels: int) -> dict[str, Any]:
    return {"channels": channels, "out_channels": out_channels, "towers": 1, "dropout": 0.0}


# The head halves its width twice: from 32 channels it would be 8, too few for ten classes.
_NARROW, _WIDE = _one_tower(32, 80), _one_tower(64, 64)


PRESETS: dict[str, Preset] = {
    "smoke": Preset(
        training={**_QUICKER, "batch_size": 8},
        by_task={task: {"epochs": 2} for task in _TASKS},
        towers={"channels": 10, "out_channels": 10, "num_layers": 2},
        learned={
            task: {"channels": 8, "out_channels": 8, "num_layers": 2, "towers": 2}
            for task in _TASKS
        },
        plain={"channels": 8, "num_layers": 2},
        task={"at_most": 200},
        options=_OURS,
    ),
    "quick": Preset(
        training=_QUICKER,
        by_task={
            "zinc": {"epochs": 70},
            "molhiv": {"epochs": 10},
            "mnist": {"epochs": 30, **_SUPERPIXELS},
            "cifar10": {"epochs": 20, **_SUPERPIXELS},
        },
        towers={"dropout": 0.0},
        learned={"zinc": _WIDE, "mnist": _NARROW, "cifar10": _NARROW},
        plain={"channels": 64},
        options=_OURS,
    ),
    "standard": Preset(
        training=_QUICKER,
        by_task={
            "zinc": {"epochs": 200},
            "molhiv": {"epochs": 30},
            "mnist": {"epochs": 40, **_SUPERPIXELS},
            "cifar10": {"epochs": 40, **_SUPERPIXELS},
        },
        learned=dict.fromkeys(_TASKS, _WIDE),
        options=_OURS,
        num_seeds=3,
    ),
    "paper": Preset(
        num_seeds=3,
    ),
}


_TRAINING = Training(
    epochs=1_000,
    batch_size=128,
    learning_rate=1e-3,
    weight_decay=3e-6,
    schedule="plateau",
    min_learning_rate=1e-5,
)
_PATIENT = dataclasses.replace(_TRAINING, plateau_patience=20)
_MOLHIV = dataclasses.replace(_PATIENT, epochs=200, learning_rate=1e-2, min_learning_rate=1e-4)


@dataclass(frozen=True)
class Column:
    """One column of the figure: a task, and the networks that PNA's authors chose for it."""

    task: GraphTask
    pna: TowerModel | PlainModel
    unscaled: TowerModel | PlainModel
    mpnn: TowerModel | PlainModel
    training: Training = _TRAINING
    mpnn_training: Training | None = None

    @property
    def learned(self) -> TowerModel | PlainModel:
        """PNA's, but each tower has all channels."""
        if isinstance(self.pna, PlainModel):
            return self.pna
        return dataclasses.replace(self.pna, divide=False)


def _superpixels(task: GraphTask) -> Column:
    return Column(
        task,
        pna=TowerModel(75, 70, dropout=0.1),
        unscaled=TowerModel(95, 90, dropout=0.1),
        mpnn=TowerModel(110, 90, dropout=0.2),
    )


def _superpixels_with_edges(task: GraphTask) -> Column:
    return Column(
        task,
        pna=TowerModel(75, 70, 50, dropout=0.3),
        unscaled=TowerModel(95, 90, 50, dropout=0.3),
        mpnn=TowerModel(110, 90, 20, dropout=0.2),
    )


COLUMNS: dict[str, Column] = {
    "zinc": Column(
        ZINC(),
        pna=TowerModel(75, 70),
        unscaled=TowerModel(95, 90),
        mpnn=TowerModel(110, 80),
        mpnn_training=dataclasses.replace(_TRAINING, weight_decay=1e-5),
    ),
    "zinc-edges": Column(
        ZINC(),
        pna=TowerModel(70, 60, 50),
        unscaled=TowerModel(90, 80, 50),
        mpnn=TowerModel(100, 70, 50),
        training=_PATIENT,
    ),
    "molhiv": Column(
        MolHIV(leave_out_up_to=5), PlainModel(), PlainModel(), PlainModel(), training=_MOLHIV
    ),
    "cifar10": _superpixels(CIFAR10()),
    "cifar10-edges": _superpixels_with_edges(CIFAR10()),
    "mnist": _superpixels(MNIST()),
    "mnist-edges": _superpixels_with_edges(MNIST()),
}
"""The columns of fig:pna_realworld."""

_DEVIATION = "the standard deviation is 0 where PNA's code has the root of 1e-5"
_WIDTHS = "the paper does not state the widths of its learned rows; they start from PNA's here"
_PLACE = (
    "the paper does not say how it puts a learned aggregator into this network; here it takes the "
    "place of PNA's twelve"
)
_WEIGHT = "the paper could not afford this row, so the weight of its law loss is ours"
_LAST = "published numbers are of the last epoch; ours are there for it and for the best one"
_SMALL = "graphs of five or fewer nodes are left out, in the test too: as PNA does, but not OGB"


@dataclass(frozen=True)
class Row:
    """One aggregator, and which of a column's networks it has."""

    aggregator: str
    network: str
    options: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


TABLE_ROWS = {
    "mpnn-sum": Row("sum", "mpnn"),
    "mpnn-max": Row("max", "mpnn"),
    "pna": Row("pna", "pna", notes=(_DEVIATION,)),
    "gru": Row("gru", "learned"),
    "binary-gru": Row("binary-gru", "learned"),
    "binary-gru-assoc": Row("binary-gru-assoc", "learned", notes=(_WEIGHT,)),
}
"""The rows of the figure that are built here, and the one that the paper could not afford."""

UNSCALED_ROWS = {
    "pna-ns": Row("pna", "unscaled", {"scalers": ["identity"]}, (_DEVIATION,)),
}
"""PNA without scalers, which is run if it is named."""

COPYING_ROWS = {"gated-selection": Row("gated-selection", "learned")}
"""An operator that can copy one of its arguments, which the paper does not have."""

MIXED_ROWS = {
    "pna-selection": Row("pna-selection", "learned", notes=(_DEVIATION,)),
    "ssma": Row("ssma", "learned"),
}
"""PNA next to a learned state, and the rival that mixes signals."""

EXTRA_ROWS = {**UNSCALED_ROWS, **COPYING_ROWS, **MIXED_ROWS}
"""Rows beyond those that an experiment's name trains, which are run if they are named."""


def find(name: str, preset: str) -> list[Experiment]:
    """The experiments that `zinc-edges`, or one row such as `zinc-edges/pna`, names."""
    column = COLUMNS[name.partition("/")[0]]
    rows = chosen_rows(name, TABLE_ROWS, EXTRA_ROWS)
    return [_experiment(each, column, row, preset) for each, row in rows.items()]


def _experiment(name: str, column: Column, row: Row, preset_name: str) -> Experiment:
    made = _at(by_name(PRESETS, preset_name, "preset"), name, column, row)
    paper = _at(PRESETS["paper"], name, column, row)
    notes = (*_notes(name, column, row), *row.notes)
    return compared(made, paper, REPORTED.get(name, {}), notes)


def _notes(name: str, column: Column, row: Row) -> list[str]:
    plain = isinstance(column.pna, PlainModel)
    found = [_SMALL] if plain else [_LAST] if name in REPORTED else []
    if row.network == "learned":
        found.append(_PLACE if plain else _WIDTHS)
    return found


def _at(preset: Preset, name: str, column: Column, row: Row) -> Experiment:
    training = (row.network == "mpnn" and column.mpnn_training) or column.training
    changes = {**preset.training, **preset.by_task.get(column.task.name, {})}
    return Experiment(
        name=name,
        task=dataclasses.replace(column.task, **preset.task),
        aggregator=AggregatorChoice(
            row.aggregator, {**preset.options.get(row.aggregator, {}), **row.options}
        ),
        model=_model(preset, column, row),
        training=dataclasses.replace(training, **changes),
        evaluation=preset.evaluation,
    )


def _model(preset: Preset, column: Column, row: Row) -> TowerModel | PlainModel:
    model: TowerModel | PlainModel = getattr(column, row.network)
    if isinstance(model, PlainModel):
        return dataclasses.replace(model, **preset.plain)
    learned = preset.learned.get(column.task.name, {})
    changes = learned if row.network == "learned" else preset.towers
    return dataclasses.replace(model, **changes)
