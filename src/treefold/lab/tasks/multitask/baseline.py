"""Statistics of the training graphs: maxima, degree averages, the constant-mean baseline."""

from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.lab.tasks.multitask.graph_data import GraphData
from treefold.lab.tasks.multitask.scores import Scores, mean_of_means, mean_over_sizes, score
from treefold.shapes import Float


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
