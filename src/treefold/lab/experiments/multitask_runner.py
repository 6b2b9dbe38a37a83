"""The runner of the multi-task benchmark: batches of one size, six squared errors."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.lab.experiments.task_runner import Folded, TaskRunner, last_inputs, splits_named
from treefold.lab.networks import CONVOLUTIONS, MultiTaskNetwork, TowerConv, multi_task_network
from treefold.lab.runs import Batches, shuffled, some_examples
from treefold.lab.tasks import TARGETS, GraphData, MultiTask, Scores, score


class MultiTaskRunner(TaskRunner):
    """The multi-task benchmark; the best checkpoint has the lowest validation loss, as in PNA."""

    task: MultiTask
    chosen_by = "validation_loss"
    highest = False
    other_aggregators = tuple(CONVOLUTIONS)

    @property
    def batches(self) -> Batches:
        """Batches of mixed sizes, or of one size; PNA has the same in every epoch."""
        if self.experiment.training.mixed_sizes:
            return shuffled
        shuffle: bool = self.experiment.training.shuffle
        return lambda data, batch_size, generator: batches_by_size(
            data, batch_size, generator if shuffle else None
        )

    @cached_property
    def validation(self) -> GraphData:
        """The validation graphs."""
        return self.task.split("val")

    def model(self) -> nn.Module:
        """The network of the recipe, with the degrees of the training graphs."""
        choice, delta = self.experiment.aggregator, self.task.mean_log_degree()
        model = vars(self.experiment.model)
        return multi_task_network(choice.name, mean_log_degree=delta, **model, **choice.options)

    def train(self) -> GraphData:
        """The training graphs; the seed of a run does not change them."""
        return self.task.split("train")

    def loss(self, model: nn.Module, batch: GraphData) -> tuple[Tensor, dict[str, Tensor]]:
        """The mean of the six targets' squared errors."""
        nodes, graphs = answers(model, batch)
        return (F.mse_loss(nodes, batch.node_y) + F.mse_loss(graphs, batch.graph_y)) / 2, {}

    def validate(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """The loss, and the mean of the six logarithms."""
        found = self._score(model, self.validation, device)
        return {
            "validation_loss": sum(found.errors) / len(TARGETS),
            "validation_log10_mse": found.mean_log10,
        }

    def folded(self, model: nn.Module, device: torch.device) -> Sequence[Folded]:
        """The first tower's aggregator, with the messages of the last layer on some graphs."""
        if not isinstance(model, MultiTaskNetwork) or not isinstance(model.next, TowerConv):
            return ()
        graphs: GraphData = some_examples(self.validation, device)
        x, neighbours = last_inputs(model.next, lambda: answers(model, graphs))
        rows = model.next.messages(x, neighbours)[:, 0]
        return (Folded(model.next.aggregators[0], rows, neighbours.groups),)  # type: ignore[arg-type]

    def cases(self, wanted: str | None = None) -> Sequence[str]:
        """Splits by name, such as test or extrapolation-95-99."""
        return splits_named(wanted, self.experiment.evaluation.splits, self.task.splits)

    def score(self, model: nn.Module, case: str, device: torch.device) -> Scores:
        """The squared error of each target."""
        return self._score(model, self.task.split(case), device)

    def shown(self, case: str, score: Scores) -> dict[str, Any]:
        """The split and the mean of the six logarithms."""
        return {"split": case, "log10_mse": score.mean_log10}

    def metrics(self, scores: Mapping[str, Scores]) -> dict[str, Any]:
        """The columns of the paper's table, and all errors next to those of a constant answer.

        A ratio to the constant answer is the mean over targets of log10(error / its error), and
        also log10 of the ratio of the mean errors: the published figure does not name it.
        """
        test = scores.get("test")
        table = {"average": test.mean_log10, **test.log10} if test else {}
        baselines = {split: self.task.baseline(split) for split in scores}
        return {
            **{f"log10_mse@{name}": value for name, value in table.items()},
            "mse": {split: _by_target(found) for split, found in scores.items()},
            "baseline_mse": {split: _by_target(found) for split, found in baselines.items()},
            "log10_ratio": {
                split: found.mean_log10 - baselines[split].mean_log10
                for split, found in scores.items()
            },
            "log10_ratio_of_means": {
                split: found.log10_mean - baselines[split].log10_mean
                for split, found in scores.items()
            },
        }

    def _score(self, model: nn.Module, data: GraphData, device: torch.device) -> Scores:
        step = self.experiment.evaluation.graphs_per_batch
        parts = [
            answers(model, data.take(torch.arange(start, min(start + step, len(data)))).to(device))
            for start in range(0, len(data), step)
        ]
        nodes, graphs = (torch.cat(part).cpu() for part in zip(*parts, strict=True))
        return score(nodes, graphs, to=data)


def batches_by_size(
    data: GraphData, batch_size: int, generator: torch.Generator | None = None
) -> Sequence[Tensor]:
    """Graphs of one size at a time: from the smallest, or both shuffled with the generator."""
    order = torch.arange(len(data))
    if generator is not None:
        order = torch.randperm(len(data), generator=generator)
    by_size = [order[data.sizes[order] == size] for size in data.sizes.unique()]
    batches = [
        graphs[start : start + batch_size]
        for graphs in by_size
        for start in range(0, len(graphs), batch_size)
    ]
    if generator is None:
        return batches
    return [batches[place] for place in torch.randperm(len(batches), generator=generator).tolist()]


def answers(model: nn.Module, batch: GraphData) -> tuple[Tensor, Tensor]:
    """The answers of a network for all nodes, and for all graphs."""
    nodes, graphs = model(batch.x, batch.edge_index, batch.groups.index, len(batch))
    return nodes, graphs


def _by_target(scores: Scores) -> dict[str, float]:
    return dict(zip(TARGETS, scores.errors, strict=True))
