"""Recipes: everything a run depends on, as frozen dataclasses that go into its record."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from treefold.names import require_one_of

T = TypeVar("T")

OPTIMIZERS = ("adam", "adamw")
SCHEDULES = ("constant", "one-cycle", "cosine", "plateau")
OPEN_ENDED = ("constant", "plateau")
"""Schedules whose learning rates do not depend on how many epochs are to come."""
_ADDED = {"added": True}
"""Marks fields that old records lack: recipes that do not use them leave them out, as those do."""


def _require_positive(part: str, settings: Any, names: Iterable[str]) -> None:
    for name in names:
        if not 0 < getattr(settings, name) < math.inf:
            raise ValueError(
                f"{part}.{name} is {getattr(settings, name)}; expected a number more than 0"
            )


def _require(
    part: str, settings: Any, names: Iterable[str], least: float | int, most: float | int = math.inf
) -> None:
    for name in names:
        value = getattr(settings, name)
        if not (least <= value <= most and value < math.inf):
            wanted = f"{least:g} or more" if most == math.inf else f"{least:g} to {most:g}"
            raise ValueError(f"{part}.{name} is {value}; expected {wanted}")


@dataclass(frozen=True)
class AggregatorChoice:
    """An aggregator by name, with the options of its constructor; `oracle` is the exact monoid."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """The network around the aggregator."""

    channels: int = 128
    counting: bool = field(default=False, metadata=_ADDED)
    """Finite counters, each of which learns to answer one question about the answer."""

    def __post_init__(self) -> None:
        _require_positive("model", self, ["channels"])


@dataclass(frozen=True)
class MultiTaskModel:
    """PNA's multi-task network; the aggregator may also be gcn, gat or gin, which have no towers.

    `divide` gives each tower its share of the channels, otherwise each has all. `readout` is
    set2set or the name of an aggregator.
    """

    channels: int = 16
    towers: int = 4
    divide: bool = True
    readout: str = "set2set"
    linear_output: bool = field(default=False, metadata=_ADDED)
    """Answers without PNA's leaky ReLU, on whose flat side the Laplacian easily ends up."""
    gru_copy_init: bool = field(default=False, metadata=_ADDED)
    """The GRU begins as nearly a copy of a node's state; PNA's forgets it after some layers."""
    node_head_he_init: bool = field(default=False, metadata=_ADDED)
    """The head for nodes begins with He's weights; PNA's are too small by a factor of the width."""

    def __post_init__(self) -> None:
        _require_positive("model", self, ["channels", "towers"])


@dataclass(frozen=True)
class TowerModel:
    """PNA's network for ZINC and superpixels.

    The last layer goes from `channels` to `out_channels`. `edge_channels` is how wide the rows of
    edges are; 0 leaves edge features out. `divide` gives each tower its share of the channels,
    otherwise each has all.
    """

    channels: int = 75
    out_channels: int = 70
    edge_channels: int = 0
    towers: int = 5
    divide: bool = True
    num_layers: int = 4
    dropout: float = 0.0

    def __post_init__(self) -> None:
        _require_positive("model", self, ["channels", "out_channels", "towers", "num_layers"])


@dataclass(frozen=True)
class PlainModel:
    """PNA's network for MolHIV: neighbours' states are aggregated as they are."""

    channels: int = 80
    num_layers: int = 4
    dropout: float = 0.3

    def __post_init__(self) -> None:
        _require_positive("model", self, ["channels", "num_layers"])


@dataclass(frozen=True)
class SmallModel:
    """The small GNN around the aggregators of a comparison."""

    channels: int = 32
    layers: int = 2

    def __post_init__(self) -> None:
        _require_positive("model", self, ["channels", "layers"])


@dataclass(frozen=True)
class Training:
    """Sizes, optimiser, schedule, and how often to validate."""

    epochs: int | None
    """None only where `seconds` are given."""
    batch_size: int
    learning_rate: float
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: str = "constant"
    clip_norm: float | None = None
    validate_every: int = 1
    """Epochs from one validation to the next."""
    patience: int | None = field(default=None, metadata=_ADDED)
    """Epochs without a better validation after which to stop; None for all epochs."""
    shuffle: bool = field(default=False, metadata=_ADDED)
    """Draw new batches of graphs in each epoch, unlike PNA on the multi-task benchmark; sets
    and real graphs are always shuffled."""
    mixed_sizes: bool = field(default=False, metadata=_ADDED)
    """Batches of graphs of all sizes, drawn in each epoch; PNA's have one size each on the
    multi-task benchmark, and the batch norm of its network is then another one in use."""
    plateau_patience: int = field(default=5, metadata=_ADDED)
    """With the schedule `plateau`: validations without progress before the learning rate is cut."""
    plateau_factor: float = field(default=0.5, metadata=_ADDED)
    """The schedule `plateau` multiplies the learning rate by it."""
    min_learning_rate: float = field(default=0.0, metadata=_ADDED)
    """Stop as soon as the schedule `plateau` has gone below it."""
    seconds: float | None = field(default=None, metadata=_ADDED)
    """Stop once the run's clock shows so many, in the middle of an epoch too."""
    anneal_from: float = field(default=1.0, metadata=_ADDED)
    """The part of all epochs after which operators with finite states sharpen theirs."""
    hard_from: float = field(default=1.0, metadata=_ADDED)
    """The part of all epochs after which their states are codes; 1 for never."""
    last_slope: float = field(default=1.0, metadata=_ADDED)
    """The slope of states just before."""
    noise: float = field(default=0.0, metadata=_ADDED)
    """Added to what will be rounded, until then."""
    counterexamples: int = field(default=0, metadata=_ADDED)
    """After that, so many triples in each step whose trees must agree; sets only."""

    def __post_init__(self) -> None:
        given = [
            name
            for name in ("epochs", "seconds", "clip_norm", "patience")
            if getattr(self, name) is not None
        ]
        positive = ["batch_size", "learning_rate", "validate_every", *given]
        _require_positive("training", self, positive)
        _require("training", self, ["weight_decay", "plateau_patience", "min_learning_rate"], 0)
        _require("training", self, ["noise", "anneal_from", "counterexamples"], 0)
        _require("training", self, ["last_slope"], 1)
        _require("training", self, ["hard_from"], self.anneal_from, 1)
        if not 0 < self.plateau_factor < 1:
            raise ValueError(
                f"training.plateau_factor is {self.plateau_factor}; expected between 0 and 1"
            )
        if self.epochs is None and self.seconds is None:
            raise ValueError("training has neither epochs nor seconds; give one of them, or both")
        if self.epochs is None and (self.schedule not in OPEN_ENDED or self.anneals):
            raise ValueError(
                f"the schedule {self.schedule} or annealing needs training.epochs; without them "
                f"use {' or '.join(OPEN_ENDED)}"
            )
        require_one_of(OPTIMIZERS, self.optimizer, "optimizer")
        require_one_of(SCHEDULES, self.schedule, "schedule")

    @property
    def anneals(self) -> bool:
        """True if operators with finite states are led to codes."""
        return self.noise > 0 or self.last_slope > 1 or self.hard_from < 1


@dataclass(frozen=True)
class Evaluation:
    """The set sizes to evaluate once the training is done, in batches of so many elements."""

    sizes: tuple[int, ...]
    elements_per_batch: int = 65_536
    balanced_sizes: tuple[int, ...] = field(default=(), metadata=_ADDED)
    """Sizes at which sets with evenly distributed answers are evaluated as well."""

    def __post_init__(self) -> None:
        _require_positive("evaluation", self, ["elements_per_batch"])
        for name in ("sizes", "balanced_sizes"):
            smallest = min(getattr(self, name), default=1)
            if smallest < 1:
                raise ValueError(f"evaluation.{name} has {smallest}; expected sizes from 1 up")


@dataclass(frozen=True)
class GraphEvaluation:
    """The splits to evaluate once the training is done, so many graphs at a time."""

    splits: tuple[str, ...]
    graphs_per_batch: int = 256

    def __post_init__(self) -> None:
        _require_positive("evaluation", self, ["graphs_per_batch"])


@dataclass(frozen=True)
class Reported:
    """A published number: its value, its deviation if it came with one, and its source."""

    value: float
    spread: float | None
    source: str


@dataclass(frozen=True)
class Experiment:
    """One row of a table: a task, an aggregator, a network, and how to train it."""

    name: str
    task: Any
    """One of the tasks of a `Kind`, as are `evaluation` and `model`."""
    aggregator: AggregatorChoice
    training: Training
    evaluation: Any
    model: Any = field(default_factory=Model)
    reported: dict[str, Reported] = field(default_factory=dict)
    departures: tuple[str, ...] = ()
    restate: Callable[["Experiment"], "Experiment"] = field(
        default=lambda experiment: experiment, repr=False, compare=False
    )
    """Gives a changed experiment with what is reported and departed from brought up to date."""

    def recipe(self) -> dict[str, Any]:
        """All of it that decides the numbers, as plain data."""
        return {
            "task": {"name": self.task.name, **plain(self.task)},
            "aggregator": plain(self.aggregator),
            "model": plain(self.model),
            "training": plain(self.training),
            "evaluation": plain(self.evaluation),
        }


@dataclass(frozen=True)
class Kind:
    """The classes that a recipe of a task is made of."""

    task: Callable[..., Any]
    model: type
    evaluation: type

    def experiment(self, name: str, recipe: Mapping[str, Any]) -> Experiment:
        """The experiment that a record's recipe describes."""
        task = {key: value for key, value in recipe["task"].items() if key != "name"}
        return Experiment(
            name=name,
            task=from_plain(self.task, task),
            aggregator=AggregatorChoice(**recipe["aggregator"]),
            model=from_plain(self.model, recipe["model"]),
            training=from_plain(Training, recipe["training"]),
            evaluation=from_plain(self.evaluation, recipe["evaluation"]),
        )


def plain(part: Any) -> dict[str, Any]:
    """A dataclass as JSON has it: tuples become lists."""
    found = {
        entry.name: getattr(part, entry.name)
        for entry in fields(part)
        if not entry.metadata.get("added") or getattr(part, entry.name) != entry.default
    }
    return {key: list(v) if isinstance(v, tuple) else v for key, v in found.items()}


def from_plain(kind: Callable[..., T], entries: Mapping[str, Any]) -> T:
    """The dataclass that `plain` was given: lists become tuples."""
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in entries.items()})
