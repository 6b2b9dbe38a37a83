"""Scores, and the statistics of training graphs that they are compared with."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.lab.tasks.multitask.graph_data import TARGETS, GraphData
from treefold.shapes import Float, Int, Shaped


@dataclass(frozen=True)
class Scores:
    """Mean squared errors, in the order of `TARGETS`."""

    errors: tuple[float, ...]

    @property
    def log10(self) -> dict[str, float]:
        """log10 of the error of each target, by name."""
        return {name: _log10(error) for name, error in zip(TARGETS, self.errors, strict=True)}

    @property
    def mean_log10(self) -> float:
        """The mean of the six logarithms: the average of the published table."""
        return sum(self.log10.values()) / len(TARGETS)

    @property
    def log10_mean(self) -> float:
        """The logarithm of the mean of the six errors: the loss, and the published box plot."""
        return _log10(sum(self.errors) / len(TARGETS))


def score(
    node_answers: Float[Tensor, " nodes _"],
    graph_answers: Float[Tensor, " graphs _"],
    to: GraphData,
) -> Scores:
    """Score answers for the graphs of `to` against its targets; each size counts the same."""
    for name, answers, targets in (
        ("node", node_answers, to.node_y),
        ("graph", graph_answers, to.graph_y),
    ):
        if answers.shape != targets.shape:
            raise ValueError(
                f"{name} answers have shape {tuple(answers.shape)}; "
                f"expected that of the targets, {tuple(targets.shape)}"
            )
    of_nodes = (node_answers.double() - to.node_y.double()).square()
    of_graphs = (graph_answers.double() - to.graph_y.double()).square()
    return Scores(tuple(mean_over_sizes(of_nodes, of_graphs, to).tolist()))


def mean_over_sizes(
    of_nodes: Float[Tensor, " nodes 3"], of_graphs: Float[Tensor, " graphs 3"], data: GraphData
) -> Float[Tensor, " 6"]:
    """The means of both over the graphs of each size, then over sizes, as PNA weighs them."""
    sizes = data.sizes
    node_means = mean_of_means(of_nodes, sizes[data.groups.index])
    return torch.cat([node_means, mean_of_means(of_graphs, sizes)])


def mean_of_means(
    rows: Shaped[Tensor, " n columns"], kinds: Int[Tensor, " n"]
) -> Float[Tensor, " columns"]:
    """The mean over kinds of the mean over the rows of a kind, in double."""
    names, kind = kinds.unique(return_inverse=True)
    sums = rows.new_zeros(len(names), rows.shape[1], dtype=torch.float64)
    sums.index_add_(0, kind, rows.double())
    return (sums / torch.bincount(kind).unsqueeze(1)).mean(0)


def _log10(error: float) -> float:
    if math.isnan(error):  # answers that are no numbers are as wrong as can be
        return math.inf
    return math.log10(error) if error > 0 else -math.inf


@dataclass(frozen=True)
class DegreeAverages:
    """Averages over the nodes of each size, then over sizes."""

    linear: float
    """The mean degree."""
    logarithmic: float
    """The mean of ln(degree + 1): δ of PNA's scalers."""
    exponential: float
    """The mean of e^(1 / degree) - 1."""


def degree_averages(data: GraphData) -> DegreeAverages:
    """The averages that degree scalers are relative to."""
    if bool((data.degrees == 0).any()):
        node = int((data.degrees == 0).nonzero()[0])
        raise ValueError(
            f"node {node} has no edge, and 1 / degree is not defined; expected graphs without "
            "isolated nodes: leave such graphs out"
        )
    degree = data.degrees.double()
    columns = torch.stack([degree, torch.log(degree + 1), torch.exp(1 / degree) - 1], 1)
    return DegreeAverages(*mean_of_means(columns, data.sizes[data.groups.index]).tolist())


def target_maxima(data: GraphData) -> Float[Tensor, " 6"]:
    """The largest value of each target."""
    return torch.cat([data.node_y.amax(0), data.graph_y.amax(0)])


def target_means(data: GraphData) -> Float[Tensor, " 6"]:
    """The mean of each target, every size counting the same."""
    return mean_over_sizes(data.node_y, data.graph_y, data)


def constant_baseline(train: GraphData, test: GraphData) -> Scores:
    """The scores on `test` of answering, for every target, its mean over `train`."""
    means = target_means(train)
    return score(means[:3].expand(test.node_y.shape[0], 3), means[3:].expand(len(test), 3), to=test)
