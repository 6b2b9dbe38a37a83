"""What a run must know of its kind of task: data, network, loss, and how it is scored."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from treefold.aggr import RaggedAggregation
from treefold.fold import Groups, Rows
from treefold.lab.experiments.recipe import Experiment
from treefold.lab.runs import Batches, Examples, shuffled


def last_inputs(module: nn.Module, run: Callable[[], object]) -> tuple[Any, ...]:
    """What a part of a network gets at its last call, while something runs."""
    seen: list[tuple[Any, ...]] = []
    watched = module.register_forward_pre_hook(lambda _, given: seen.append(given))
    try:
        run()
    finally:
        watched.remove()
    return seen[-1]


class Folded(NamedTuple):
    """An aggregator of a network, and rows that it really meets."""

    aggregator: RaggedAggregation
    rows: Rows
    groups: Groups


class Routine(ABC):
    """One experiment with one seed, as the trainer and the command line see it.

    `chosen_by` is the column of the log by which the best checkpoint is chosen: the highest, or
    the lowest, and of equal ones that with the lowest `validation_loss`. `paced_by` and
    `pace_highest` say the same of the schedule `plateau`. What is evaluated are cases: sizes of
    sets, splits of graphs; `scores_last` asks for the scores of the last epoch beside those of the
    best.
    """

    chosen_by: str
    highest: bool = True
    scores_last: bool = False
    other_aggregators: Collection[str] = ()
    """What a recipe's aggregator may be called besides the names of the registry."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        self.experiment, self.seed = experiment, seed

    @property
    def paced_by(self) -> str:
        """The column by which the schedule `plateau` cuts the learning rate."""
        return self.chosen_by

    @property
    def pace_highest(self) -> bool:
        """Whether that column should rise."""
        return self.highest

    def require_data(self) -> None:  # noqa: B027  (most tasks make their data themselves)
        """Raise an error that says what to do, if a file to be read is missing."""

    def data_departures(self) -> Sequence[str]:
        """Where the data that is really there leaves the published one, in words."""
        return ()

    @property
    def batches(self) -> Batches:
        """Which examples each step of an epoch takes."""
        return shuffled

    @abstractmethod
    def model(self) -> nn.Module:
        """A new network."""

    @abstractmethod
    def train(self) -> Examples:
        """What to learn from."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch of examples, and sums over them of whatever else is counted."""

    @abstractmethod
    def validate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """Columns for the log, `chosen_by` and `validation_loss` among them."""

    @abstractmethod
    def folded(self, model: nn.Module, device: torch.device) -> Folded | None:
        """Something to measure laws on; None where nothing is learned that should obey any."""

    @abstractmethod
    def cases(self, wanted: str | None = None) -> Sequence[Any]:
        """What to evaluate: what the words ask for, or else the recipe."""

    @abstractmethod
    def score(self, model: nn.Module, case: Any, device: torch.device) -> Any:
        """How well a network does on a case."""

    @abstractmethod
    def shown(self, case: Any, score: Any) -> dict[str, Any]:
        """The case and one number, by what they are called."""

    @abstractmethod
    def metrics(self, scores: Mapping[Any, Any]) -> dict[str, Any]:
        """What the record keeps of the scores, by case."""
