"""Experiments on a user's own graphs, as `treefold compare` makes them, and their runner."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from treefold.lab.experiments.recipe import Experiment, GraphEvaluation, Kind, SmallModel
from treefold.lab.experiments.task_runner import Folded, TaskRunner, mean_violations
from treefold.lab.experiments.your_graphs_scores import Scoring
from treefold.lab.networks import SmallGNN, small_network
from treefold.lab.runs import AnswerScore, World, losses_of, peak_memory, some_examples
from treefold.lab.tasks import SPLITS, Asked, AskedBatch, Dataset, YourGraphs
from treefold.names import require_one_of


class YourGraphsRunner(TaskRunner):
    """A comparison's run; its clock counts training alone, as the budget does."""

    logs_laws = False  # once, at the end: graphs may be large
    times_training_alone = True

    def __init__(self, experiment: Experiment, seed: int, dataset: Dataset | None = None) -> None:
        super().__init__(experiment, seed)
        self._given, self.step_memory = dataset, 0
        metric = experiment.task.facts["metric"]
        self.chosen_by, self.highest = f"validation_{metric}", metric != "mae"

    @cached_property
    def dataset(self) -> Dataset:
        """The data set, read again where it was not given."""
        if self._given is not None:
            return self._given
        found: Dataset = self.experiment.task.load()
        return found

    @cached_property
    def scoring(self) -> Scoring:
        """The loss and the score of the data set's problem."""
        return Scoring.of(self.dataset)

    def require_data(self) -> None:
        """Read the data set; its file may also register the aggregator."""
        _ = self.dataset

    def model(self) -> nn.Module:
        """The small GNN of the recipe."""
        choice, model = self.experiment.aggregator, self.experiment.model
        return small_network(
            choice.name, self.dataset, model.channels, model.layers, **choice.options
        )

    def train(self) -> Asked:
        """The training graphs, with the answers that are asked for."""
        return self.dataset.train

    def loss(self, model: nn.Module, batch: AskedBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy of classes, absolute error of numbers."""
        return self.scoring.loss(model, batch)

    def validate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """The loss and the metric."""
        found = self.score(model, "val", device)
        return {"validation_loss": found.loss, self.chosen_by: found.measure}

    def warm_up(self, model: nn.Module, world: World) -> None:
        """One training step on the graphs with the most edges: measures memory, learns nothing.

        It also builds whatever has to be compiled, which no budget of seconds should pay for.
        """
        data, size = self.dataset.train, self.experiment.training.batch_size
        largest = data.store.num_edges[data.graphs].argsort(descending=True)
        model.train()
        with peak_memory(world.device) as peak:
            batch = data.take(largest[:size]).to(world.device)
            world.backward(losses_of(model, batch, self.loss).total())
        model.zero_grad()
        self.step_memory = peak.num_bytes

    def folded(self, model: nn.Module, device: torch.device) -> Sequence[Folded]:
        """The aggregator of each layer, on some validation graphs."""
        assert isinstance(model, SmallGNN)
        batch: AskedBatch = some_examples(self.dataset.splits["val"], device)
        return [Folded(*each) for each in model.folded(batch.graphs)]

    def cases(self, wanted: str | None = None) -> Sequence[str]:
        """Splits: train, val, test."""
        names: Sequence[str] = wanted.split(",") if wanted else self.experiment.evaluation.splits
        for name in names:
            require_one_of(SPLITS, name, "split")
        return names

    def score(self, model: nn.Module, case: str, device: torch.device) -> AnswerScore:
        """The loss and the metric on a split."""
        step = self.experiment.evaluation.graphs_per_batch
        return self.scoring.score(model, self.dataset.splits[case], step, device)

    def shown(self, case: str, score: AnswerScore) -> dict[str, Any]:
        """The split and the metric."""
        return {"split": case, self._metric: score.measure}

    def metrics(self, scores: Mapping[str, AnswerScore]) -> dict[str, Any]:
        """The metric on each split."""
        return {f"{self._metric}@{split}": score.measure for split, score in scores.items()}

    @torch.no_grad()
    def best_metrics(self, model: nn.Module, device: torch.device) -> dict[str, Any]:
        """Violations of laws, the score of a constant answer, and the memory of a step."""
        return {
            f"constant_{self._metric}": self.scoring.constant(self.dataset, "test"),
            "step_memory": self.step_memory,
            **mean_violations(self.folded(model.eval(), device)),
        }

    @property
    def _metric(self) -> str:
        return str(self.dataset.problem.metric)


KINDS = {YourGraphs.name: Kind(YourGraphs, SmallModel, GraphEvaluation)}
RUNNER = YourGraphsRunner
