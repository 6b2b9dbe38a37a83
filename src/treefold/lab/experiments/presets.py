"""Presets: the same experiments at four prices, as data."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from treefold.lab.experiments.recipe import Evaluation, Model, Training

ALL_SIZES = tuple(range(1, 201))
BALANCED_SIZES = (2, 4, 8, 16, 32, 64, 128, 200, 500, 1000)
SOME_SIZES = (*range(1, 17), 20, 24, 32, 48, 64, 96, 128, 160, 200)


@dataclass(frozen=True)
class Preset:
    """How much of everything: for all aggregators of an experiment alike."""

    about: str
    training: Training
    evaluation: Evaluation
    model: Model = field(default_factory=Model)
    task: dict[str, Any] = field(default_factory=dict)
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What this preset changes in the constructor of an aggregator, by name."""
    num_seeds: int = 1


# All learned monoids see random trees, which an associative operator does not mind; the law loss
# is a mean over channels, on a sample of nodes, so that it does not drown the task at the start.
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
        about="seconds: does it run?",
        training=Training(
            epochs=2, batch_size=64, learning_rate=2e-3, optimizer="adamw", schedule="one-cycle"
        ),
        evaluation=Evaluation(sizes=(*range(1, 17), 32, 200), balanced_sizes=(16, 200)),
        model=Model(channels=16),
        task={"num_train": 256, "num_validation": 64, "num_evaluation": 16},
        options=_OURS,
    ),
    "quick": Preset(
        about="the whole comparison in ten minutes on two cores",
        training=_TRAINING,
        evaluation=Evaluation(sizes=SOME_SIZES),
        task={"num_evaluation": 512},
        options=_OURS,
    ),
    "standard": Preset(
        about="what we publish: about ten minutes of one core a run, three seeds",
        training=dataclasses.replace(_TRAINING, epochs=60),
        evaluation=Evaluation(sizes=ALL_SIZES, balanced_sizes=BALANCED_SIZES),
        options=_OURS,
        num_seeds=3,
    ),
    "paper": Preset(
        about="as in the paper: 1,000 epochs, hours to days",
        training=Training(epochs=1000, batch_size=32, learning_rate=1e-4),
        evaluation=Evaluation(sizes=ALL_SIZES, balanced_sizes=BALANCED_SIZES),
        num_seeds=3,
    ),
}
