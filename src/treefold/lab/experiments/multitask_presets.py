"""Presets of the graph experiments: the same rows at four prices, as data."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from treefold.lab.experiments.recipe import GraphEvaluation, Training
from treefold.lab.tasks import EXTRAPOLATION_SIZES

ALL_SPLITS = ("test", *EXTRAPOLATION_SIZES)


@dataclass(frozen=True)
class MultiTaskPreset:
    """How much of everything, for all rows alike; None leaves it to the row, as published."""

    about: str
    training: Training | None = None
    wide: int | None = None
    """Channels of the rows that have 128."""
    wide_learning_rate: float | None = None
    """Of the same rows; the paper trains them at a tenth of the rate of the others."""
    model: dict[str, Any] = field(default_factory=dict)
    """What this preset changes in the network of every row."""
    evaluation: GraphEvaluation = field(default_factory=lambda: GraphEvaluation(ALL_SPLITS))
    task: dict[str, Any] = field(default_factory=dict)
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What this preset changes in the constructor of an aggregator, by name."""
    num_seeds: int = 1


# The law loss is added once for each layer and tower, and squared errors here are near 0.001: a
# mean over channels, on a sample of nodes, with a small weight does not drown them.
_OURS: dict[str, dict[str, Any]] = {
    "binary-gru-assoc": {"associativity": 0.01, "law_nodes": 64, "law_reduction": "mean"},
}

# With PNA's own network, the Laplacian is known after the first layer, forgotten by the fourth, and
# not relearned in as few steps as these presets have; if it is kept, the head must hear it.
_MODEL = {"linear_output": True, "gru_copy_init": True, "node_head_he_init": True}

_TRAINING = Training(
    epochs=40,
    batch_size=64,
    learning_rate=5e-3,
    weight_decay=1e-6,
    schedule="one-cycle",
    clip_norm=1.0,
    shuffle=True,
    mixed_sizes=True,
)
# At the rate of the narrow rows, those with one wide tower forget halfway what they had learned.
_WIDE_RATE = 2e-3

MULTITASK_PRESETS: dict[str, MultiTaskPreset] = {
    "smoke": MultiTaskPreset(
        about="seconds: does it run?",
        training=dataclasses.replace(_TRAINING, epochs=2, batch_size=8),
        wide=16,
        wide_learning_rate=_WIDE_RATE,
        evaluation=GraphEvaluation(("test", "extrapolation-20-24")),
        task={
            "num_train": 80,
            "num_validation": 20,
            "num_test": 20,
            "num_extrapolation": 20,
        },
        model=_MODEL,
        options=_OURS,
    ),
    "quick": MultiTaskPreset(
        about="the whole table in an hour on two cores, 32 channels instead of 128",
        training=_TRAINING,
        wide=32,
        wide_learning_rate=_WIDE_RATE,
        task={"num_extrapolation": 160},
        model=_MODEL,
        options=_OURS,
    ),
    "standard": MultiTaskPreset(
        about="200 epochs with small batches, 64 channels instead of 128, three seeds",
        training=dataclasses.replace(_TRAINING, epochs=200),
        wide=64,
        wide_learning_rate=_WIDE_RATE,
        model=_MODEL,
        options=_OURS,
        num_seeds=3,
    ),
    "paper": MultiTaskPreset(
        about="as in the paper: 1,000 to 10,000 epochs, days; wants a GPU",
        num_seeds=3,
    ),
}
