"""Recipes: everything a run depends on, as frozen dataclasses that go into its record."""

from dataclasses import dataclass, field, fields
from typing import Any

from treefold.names import by_name
from treefold.tasks import SET_TASKS, SetTask

OPTIMIZERS = ("adam", "adamw")
SCHEDULES = ("constant", "one-cycle", "cosine")


@dataclass(frozen=True)
class AggregatorChoice:
    """An aggregator by name, with the options of its constructor; `oracle` is the exact monoid."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """The network around the aggregator."""

    channels: int = 128


@dataclass(frozen=True)
class Training:
    """How to train: sizes, optimiser, schedule, and how often to look."""

    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: str = "constant"
    clip_norm: float | None = None
    validate_every: int = 1
    """Epochs from one validation to the next."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate", "validate_every"):
            if not getattr(self, name) > 0:
                raise ValueError(f"training.{name} is {getattr(self, name)}; expected more than 0")
        by_name(dict.fromkeys(OPTIMIZERS, True), self.optimizer, "optimizer")
        by_name(dict.fromkeys(SCHEDULES, True), self.schedule, "schedule")


@dataclass(frozen=True)
class Evaluation:
    """Which set sizes are evaluated once the training is done, in batches of how many elements."""

    sizes: tuple[int, ...]
    elements_per_batch: int = 65_536


@dataclass(frozen=True)
class Reported:
    """A published number: its value, its spread, and where it stands."""

    value: float
    spread: float
    source: str


@dataclass(frozen=True)
class Experiment:
    """One row of a table: a task, an aggregator, a network, and how to train it."""

    name: str
    task: SetTask
    aggregator: AggregatorChoice
    training: Training
    evaluation: Evaluation
    model: Model = field(default_factory=Model)
    reported: dict[str, Reported] = field(default_factory=dict)
    departures: tuple[str, ...] = ()

    def recipe(self) -> dict[str, Any]:
        """All of it that decides the numbers, as plain data."""
        return {
            "task": {"name": task_name(self.task), **plain(self.task)},
            "aggregator": plain(self.aggregator),
            "model": plain(self.model),
            "training": plain(self.training),
            "evaluation": plain(self.evaluation),
        }


def plain(part: Any) -> dict[str, Any]:
    """A dataclass as JSON has it: tuples become lists."""
    found = {entry.name: getattr(part, entry.name) for entry in fields(part)}
    return {key: list(v) if isinstance(v, tuple) else v for key, v in found.items()}


def task_name(task: SetTask) -> str:
    """The name under which the task is registered."""
    return next(name for name, kind in SET_TASKS.items() if type(task) is kind)


def experiment_from_recipe(name: str, recipe: dict[str, Any]) -> Experiment:
    """The experiment that a record's recipe describes."""
    task = dict(recipe["task"])
    evaluation = dict(recipe["evaluation"])
    return Experiment(
        name=name,
        task=by_name(SET_TASKS, task.pop("name"), "task")(**task),
        aggregator=AggregatorChoice(**recipe["aggregator"]),
        model=Model(**recipe["model"]),
        training=Training(**recipe["training"]),
        evaluation=Evaluation(tuple(evaluation.pop("sizes")), **evaluation),
    )
