"""The runs of a comparison: aggregators and seeds, with one budget and one network for all."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from treefold.aggr import AGGREGATORS
from treefold.lab.experiments import (
    AggregatorChoice,
    Experiment,
    GraphEvaluation,
    Training,
)
from treefold.lab.experiments import SmallModel as SmallModel
from treefold.lab.tasks import SPLITS, YourGraphs
from treefold.names import require_one_of

EPOCHS = 30


@dataclass(frozen=True)
class Budget:
    """The training of every run: so many epochs, or so many seconds of training."""

    epochs: int | None = EPOCHS
    seconds: float | None = None
    batch_size: int = 64
    """Graphs at once; a single graph is always taken whole."""
    learning_rate: float = 3e-3
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.seconds is None):
            raise ValueError("give either epochs or seconds, so that all runs get the same")
        _ = self.training

    def __str__(self) -> str:
        if self.epochs is None:
            return f"{self.seconds:g} seconds"
        return "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"

    @property
    def training(self) -> Training:
        """As a part of a recipe."""
        return Training(**vars(self))


@dataclass(frozen=True)
class Plan:
    """A comparison, before it is run."""

    aggregators: tuple[str, ...] = tuple(AGGREGATORS)
    num_seeds: int = 3
    budget: Budget = Budget()
    model: SmallModel = field(default_factory=SmallModel)

    def __post_init__(self) -> None:
        if not self.aggregators:
            raise ValueError("no aggregators are given; name one or more, with commas")
        for name in self.aggregators:
            require_one_of(AGGREGATORS, name, "aggregator")
        if len(set(self.aggregators)) < len(self.aggregators):
            raise ValueError(f"an aggregator is named twice in {', '.join(self.aggregators)}")
        if self.num_seeds < 1:
            raise ValueError(f"{self.num_seeds} seeds; expected 1 or more")

    def pairs(self) -> Iterator[tuple[str, int]]:
        """Aggregators with seeds; all aggregators get their first seed before any its second."""
        for seed in range(self.num_seeds):
            for name in self.aggregators:
                yield name, seed

    def experiment(self, name: str, task: YourGraphs) -> Experiment:
        """The experiment of an aggregator."""
        return Experiment(
            name=f"{task.facts['name']}/{name}",
            task=task,
            aggregator=AggregatorChoice(name),
            training=self.budget.training,
            evaluation=GraphEvaluation(SPLITS, self.budget.batch_size),
            model=self.model,
        )


def parse_aggregators(names: str | None) -> tuple[str, ...]:
    """Names with commas; all of the registry if none are given."""
    return tuple(AGGREGATORS) if names is None else tuple(filter(None, names.split(",")))
