"""What a comparison runs: which aggregators with which seeds, and one budget for all."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from treefold.aggr import AGGREGATORS
from treefold.names import require_one_of

EPOCHS = 30


@dataclass(frozen=True)
class Budget:
    """What every run gets: so many epochs, or so many seconds of training."""

    epochs: int | None = EPOCHS
    seconds: float | None = None
    batch_size: int = 64
    """Graphs at once; a single graph is always taken whole."""
    learning_rate: float = 3e-3
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.seconds is None):
            raise ValueError("give either epochs or seconds, so that all runs get the same")
        for name in ("epochs", "seconds", "batch_size", "learning_rate", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name.replace('_', ' ')} is {value}; expected more than 0")

    def __str__(self) -> str:
        if self.epochs is None:
            return f"{self.seconds:g} seconds"
        return "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"


@dataclass(frozen=True)
class Size:
    """How large the network is."""

    channels: int = 32
    layers: int = 2

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise ValueError(f"{name} is {value}; expected 1 or more")


@dataclass(frozen=True)
class Plan:
    """A comparison, before it is run."""

    aggregators: tuple[str, ...] = tuple(AGGREGATORS)
    num_seeds: int = 3
    budget: Budget = Budget()
    size: Size = Size()

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

    def recipe(self, name: str, facts: dict[str, Any]) -> dict[str, Any]:
        """What the record of a run with this aggregator says it depends on."""
        return {
            "dataset": facts,
            "aggregator": {"name": name, "options": {}},
            "model": asdict(self.size),
            "training": asdict(self.budget),
        }


def parse_aggregators(names: str | None) -> tuple[str, ...]:
    """Names with commas; all of the registry if none are given."""
    return tuple(AGGREGATORS) if names is None else tuple(filter(None, names.split(",")))
