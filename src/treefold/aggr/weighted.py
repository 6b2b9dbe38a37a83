"""Sums, means, variances and deviations of groups where every row has a weight.

A weight counts a row so many times, fractions included; weights of 1 give what PyG gives.
"""

import math
from collections.abc import Callable

from torch import Tensor
from torch_geometric.nn import aggr as pyg
from torch_geometric.utils import scatter


def weighted_sum(x: Tensor, weight: Tensor, index: Tensor, num_groups: int) -> Tensor:
    """The sum of weight times row."""
    found: Tensor = scatter(x * weight, index, 0, num_groups, "sum")
    return found


def weighted_mean(x: Tensor, weight: Tensor, index: Tensor, num_groups: int) -> Tensor:
    """The weighted sum over the sum of weights; zero where weights add up to zero."""
    total: Tensor = scatter(weight, index, 0, num_groups, "sum")
    none = total == 0
    sums = weighted_sum(x, weight, index, num_groups)
    return (sums / total.masked_fill(none, 1)).masked_fill(none, 0)


def weighted_variance(x: Tensor, weight: Tensor, index: Tensor, num_groups: int) -> Tensor:
    """The weighted mean of squared distances from the weighted mean."""
    mean = weighted_mean(x, weight, index, num_groups)
    return weighted_mean((x - mean.index_select(0, index)).square(), weight, index, num_groups)


def weighted_deviation(x: Tensor, weight: Tensor, index: Tensor, num_groups: int) -> Tensor:
    """The root of the variance; as in PyG, zero where that is not above 1e-5."""
    least = 1e-5
    root = weighted_variance(x, weight, index, num_groups).clamp(min=least).sqrt()
    return root.masked_fill(root <= math.sqrt(least), 0)


WEIGHTED: dict[type, Callable[[Tensor, Tensor, Tensor, int], Tensor]] = {
    pyg.SumAggregation: weighted_sum,
    pyg.MeanAggregation: weighted_mean,
    pyg.VarAggregation: weighted_variance,
    pyg.StdAggregation: weighted_deviation,
}
"""By PyG's module."""
