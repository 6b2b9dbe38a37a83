"""The runner of real graphs: shuffled batches, one answer per graph, scores of two epochs."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from treefold.lab.experiments.recipe import Experiment, TowerModel
from treefold.lab.experiments.task_runner import Folded, TaskRunner, last_inputs, splits_named
from treefold.lab.networks import (
    GraphNetwork,
    NormalizedTowers,
    PlainLayer,
    plain_network,
    tower_network,
)
from treefold.lab.runs import AnswerScore, measure_of, num_correct, score_answers, some_examples
from treefold.lab.tasks import (
    SPLITS,
    GraphBatch,
    GraphStore,
    GraphTask,
    average_log_degree,
    differences_from_official,
)


class RealWorldRunner(TaskRunner):
    """A benchmark of real graphs; the best checkpoint is best in the measure of its task."""

    task: GraphTask
    scores_last = True

    def __init__(self, experiment: Experiment, seed: int) -> None:
        super().__init__(experiment, seed)
        self.chosen_by = f"validation_{self.task.metric}"
        self.highest = measure_of(self.task.metric).highest

    @property
    def paced_by(self) -> str:
        """The loss, on MolHIV the measure: as PNA does."""
        return self.chosen_by if measure_of(self.task.metric).paces else "validation_loss"

    @property
    def pace_highest(self) -> bool:
        """True if that column should rise."""
        return self.highest and self.paced_by == self.chosen_by

    @cached_property
    def stores(self) -> dict[str, GraphStore]:
        """The graphs of all splits."""
        return {split: self.task.split(split) for split in SPLITS}

    def require_data(self) -> None:
        """Raise an error that names a missing file of the data set."""
        self.task.require()

    def data_departures(self) -> Sequence[str]:
        """Differences of the files from the official ones."""
        return differences_from_official(self.task)

    def model(self) -> nn.Module:
        """The network of the recipe, with the degrees of the training graphs."""
        choice, model, task = self.experiment.aggregator, self.experiment.model, self.task
        options = {"mean_log_degree": average_log_degree(self.train()), **choice.options}
        if not isinstance(model, TowerModel):
            return plain_network(
                choice.name, task.node_input, task.num_outputs, **vars(model), **options
            )
        edges = task.edge_input if model.edge_channels else None
        return tower_network(
            choice.name, task.node_input, task.num_outputs, edges=edges, **vars(model), **options
        )

    def train(self) -> GraphStore:
        """The training graphs; the seed of a run does not change them."""
        return self.stores["train"]

    def loss(self, model: nn.Module, batch: GraphBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """The absolute error or the cross-entropy, and of classes the correct ones."""
        found = answers(model, batch)
        counts = {}
        if self.task.metric == "accuracy":
            counts["accuracy"] = num_correct(found.detach(), batch.y)
        return measure_of(self.task.metric).loss(found, batch.y), counts

    def validate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """The loss, and the measure of the task."""
        found = self.score(model, "val", device)
        return {"validation_loss": found.loss, self.chosen_by: found.measure}

    def folded(self, model: nn.Module, device: torch.device) -> Sequence[Folded]:
        """The last layer's first aggregator, with what it gets on some graphs."""
        assert isinstance(model, GraphNetwork)
        graphs: GraphBatch = some_examples(self.stores["val"], device)
        last = model.layers[-1]
        x, around = last_inputs(last, lambda: answers(model, graphs))
        if isinstance(last, PlainLayer):
            rows = last.rows(x, around.neighbours)
            return (Folded(last.aggregator, rows, around.neighbours.groups),)
        assert isinstance(last, NormalizedTowers)
        messages = last.conv.messages(x, around.neighbours, around.edges)[:, 0]
        return (Folded(last.conv.aggregators[0], messages, around.neighbours.groups),)  # type: ignore[arg-type]

    def cases(self, wanted: str | None = None) -> Sequence[str]:
        """Splits: train, val, test."""
        return splits_named(wanted, self.experiment.evaluation.splits, SPLITS)

    def score(self, model: nn.Module, case: str, device: torch.device) -> AnswerScore:
        """The loss and the measure on a split."""
        store, step = self.stores[case], self.experiment.evaluation.graphs_per_batch
        numbers = torch.arange(len(store)).split(step)
        found = [answers(model, store.take(chosen).to(device)).cpu() for chosen in numbers]
        wanted = store.take(torch.arange(len(store))).y
        return score_answers(self.task.metric, torch.cat(found).float(), wanted)

    def shown(self, case: str, score: AnswerScore) -> dict[str, Any]:
        """The split and the measure."""
        return {"split": case, self.task.metric: score.measure}

    def metrics(self, scores: Mapping[str, AnswerScore]) -> dict[str, Any]:
        """The measure on each split, and how many graphs there were."""
        measures = {f"{self.task.metric}@{split}": s.measure for split, s in scores.items()}
        return {**measures, "num_graphs": {name: len(s) for name, s in self.stores.items()}}


def answers(model: nn.Module, batch: GraphBatch) -> Tensor:
    """The answers of a network for all graphs."""
    found: Tensor = model(
        batch.x, batch.edge_index, batch.edge_attr, batch.groups.index, len(batch)
    )
    return found
