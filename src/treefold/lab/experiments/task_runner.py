"""The part of a run that depends on its kind of task: data, network, loss and scores."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from treefold.aggr import RaggedAggregation
from treefold.fold import Groups, Rows
from treefold.lab.experiments.recipe import Experiment
from treefold.lab.runs import Batches, Examples, World, shuffled, violations_on
from treefold.names import require_one_of


def last_inputs(module: nn.Module, run: Callable[[], object]) -> tuple[Any, ...]:
    """The inputs of a part of a network at its last call, while something runs."""
    seen: list[tuple[Any, ...]] = []
    watched = module.register_forward_pre_hook(lambda _, given: seen.append(given))
    try:
        run()
    finally:
        watched.remove()
    return seen[-1]


class Folded(NamedTuple):
    """An aggregator of a network, and rows that it meets in a batch."""

    aggregator: RaggedAggregation
    rows: Rows
    groups: Groups


def mean_violations(folded: Sequence[Folded]) -> dict[str, float]:
    """The relative violation of each law, as a mean over aggregators."""
    found = [violations_on(*each) for each in folded]
    laws = found[0] if found else {}
    return {f"law:{law}": sum(each[law] for each in found) / len(found) for law in laws}


def splits_named(wanted: str | None, usual: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """The splits that the words ask for, or else the usual ones."""
    names = wanted.split(",") if wanted else usual
    for name in names:
        require_one_of(known, name, "split")
    return names


class TaskRunner(ABC):
    """One experiment with one seed, as the trainer and the command line see it.

    `chosen_by` is the column of the log by which the best checkpoint is chosen: the highest, or
    the lowest, and of equal ones that with the lowest `validation_loss`. `paced_by` and
    `pace_highest` are the same for the schedule `plateau`. What is evaluated are cases: sizes of
    sets, splits of graphs; `scores_last` asks for the scores of the last epoch next to those of the
    best. With `times_training_alone` the run's clock stands still during validation.
    """

    chosen_by: str
    highest: bool = True
    scores_last: bool = False
    logs_laws: bool = True
    times_training_alone: bool = False
    other_aggregators: Collection[str] = ()
    """Names of aggregators besides those of the registry."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        self.experiment, self.seed, self.task = experiment, seed, experiment.task

    @property
    def paced_by(self) -> str:
        """The column by which the schedule `plateau` cuts the learning rate."""
        return self.chosen_by

    @property
    def pace_highest(self) -> bool:
        """True if that column should rise."""
        return self.highest

    def require_data(self) -> None:  # noqa: B027  (most tasks make their data themselves)
        """Raise an error if a file to be read is missing."""

    def data_departures(self) -> Sequence[str]:
        """Sentences about data that is not the published one."""
        return ()

    @property
    def batches(self) -> Batches:
        """The examples of each step of an epoch."""
        return shuffled

    @abstractmethod
    def model(self) -> nn.Module:
        """A new network."""

    @abstractmethod
    def train(self) -> Examples:
        """The examples to learn from."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch of examples, and sums over them of whatever else is counted."""

    @abstractmethod
    def validate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """Columns for the log, `chosen_by` and `validation_loss` among them."""

    def warm_up(self, model: nn.Module, world: World) -> None:  # noqa: B027  (few need it)
        """Do what the run's clock should not count; learns nothing."""

    def finish_epoch(self, model: nn.Module) -> None:  # noqa: B027  (few need it)
        """Change a network between two epochs, in all processes alike."""

    @abstractmethod
    def folded(self, model: nn.Module, device: torch.device) -> Sequence[Folded]:
        """Aggregators to measure laws on; none where nothing is learned that should obey any."""

    @abstractmethod
    def cases(self, wanted: str | None = None) -> Sequence[Any]:
        """The cases that the words ask for, or else those of the recipe."""

    @abstractmethod
    def score(self, model: nn.Module, case: Any, device: torch.device) -> Any:
        """The score of a network on a case."""

    @abstractmethod
    def shown(self, case: Any, score: Any) -> dict[str, Any]:
        """The case and one number, by what they are called."""

    @abstractmethod
    def metrics(self, scores: Mapping[Any, Any]) -> dict[str, Any]:
        """The entries of the record, from scores by case."""

    def best_metrics(self, model: nn.Module, device: torch.device) -> dict[str, Any]:
        """Further entries of the record, of the network with its best parameters."""
        return {}
