"""Presets of the real-world experiments: the same rows at four prices, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from treefold.lab.experiments.recipe import GraphEvaluation

Changes = Mapping[str, Any]
"""Fields of a recipe's part that are not as published, by name."""


@dataclass(frozen=True)
class RealWorldPreset:
    """What is not as published; what is not named is."""

    about: str
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

_TRAINING = {
    "batch_size": 64,
    "learning_rate": 2e-3,
    "schedule": "one-cycle",
    "clip_norm": 1.0,
    "plateau_patience": 5,
    "min_learning_rate": 0.0,
}

# 10,000 images are 156 batches of 64: too few steps to learn from in minutes.
_SUPERPIXELS = {"batch_size": 16}

TASKS = ("zinc", "molhiv", "mnist", "cifar10")


def _one_tower(channels: int, out_channels: int) -> dict[str, Any]:
    return {"channels": channels, "out_channels": out_channels, "towers": 1, "dropout": 0.0}


# The head halves its width twice: from 32 channels it would be 8, too few for ten classes.
_NARROW, _WIDE = _one_tower(32, 80), _one_tower(64, 64)


REALWORLD_PRESETS: dict[str, RealWorldPreset] = {
    "smoke": RealWorldPreset(
        about="seconds: does it run?",
        training={**_TRAINING, "batch_size": 8},
        by_task={task: {"epochs": 2} for task in TASKS},
        towers={"channels": 10, "out_channels": 10, "num_layers": 2},
        learned={
            task: {"channels": 8, "out_channels": 8, "num_layers": 2, "towers": 2} for task in TASKS
        },
        plain={"channels": 8, "num_layers": 2},
        task={"at_most": 200},
        options=_OURS,
    ),
    "quick": RealWorldPreset(
        about="5 to 40 minutes a row on one core; learned rows have one tower of 64 or 32 channels",
        training=_TRAINING,
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
    "standard": RealWorldPreset(
        about="hours a row on one core; learned rows have one tower of 64 channels, three seeds",
        training=_TRAINING,
        by_task={
            "zinc": {"epochs": 200},
            "molhiv": {"epochs": 30},
            "mnist": {"epochs": 40, **_SUPERPIXELS},
            "cifar10": {"epochs": 40, **_SUPERPIXELS},
        },
        learned=dict.fromkeys(TASKS, _WIDE),
        options=_OURS,
        num_seeds=3,
    ),
    "paper": RealWorldPreset(
        about="as in the paper: until the learning rate is below 1e-5, days; wants a GPU",
        num_seeds=3,
    ),
}
