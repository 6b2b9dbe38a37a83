"""Fixed aggregators: PyG's own, behind the same border as the learned ones."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import aggr as pyg

from treefold.aggr.base import RaggedAggregation, checked_channels, require_channels
from treefold.aggr.extremes import ExtremeAggregation
from treefold.aggr.static import StaticGroups, reduce_static
from treefold.aggr.weighted import WEIGHTED
from treefold.algebra import ExactMonoid, State, weight_like
from treefold.fold import Groups, Rows, TableRows, plan_of, require_rows, take_rows, tree_reduce


class FixedAggregation(RaggedAggregation):
    """One of PyG's aggregations. Empty groups give what it gives: zero for all in our registry.

    `multiple` is how many times wider its output is than its input.
    """

    def __init__(self, aggregation: nn.Module, channels: int, multiple: int = 1) -> None:
        super().__init__()
        self.aggregation = aggregation
        self.channels = self.in_channels = checked_channels(channels)
        self.out_channels = multiple * channels

    @classmethod
    def pna(
        cls,
        channels: int,
        deg: Tensor | Sequence[int] = (0, 1),
        mean_log: float | None = None,
        scalers: Sequence[str] = ("identity", "amplification", "attenuation"),
    ) -> "FixedAggregation":
        """Principal neighbourhood aggregation: mean, max, min and std, each unscaled, amplified
        and attenuated by the logarithm of the group's size: 12 times as wide as its input, or 4
        times for each of the `scalers` given.

        `deg` is the histogram of group sizes in the training data (`deg[d]` groups of size d), to
        whose mean the scalers refer; by default they refer to groups of one. `mean_log` gives that
        mean of ln(size + 1) itself, where it is not to be the plain mean over groups.
        """
        aggregation = pyg.DegreeScalerAggregation(
            aggr=["mean", ExtremeAggregation("max"), ExtremeAggregation("min"), "std"],
            scaler=list(scalers),
            deg=torch.as_tensor(deg),
        )
        if mean_log is not None:
            if not 0 < mean_log < float("inf"):
                raise ValueError(f"mean_log is {mean_log}; expected the mean of ln(size + 1)")
            aggregation.init_avg_deg_log = mean_log
            aggregation.reset_parameters()
        return cls(aggregation, channels, multiple=4 * len(scalers))

    def reset_parameters(self) -> None:
        """Reset PyG's aggregation."""
        self.aggregation.reset_parameters()  # type: ignore[operator]

    def aggregate(self, x: Rows, groups: Groups) -> Tensor:
        """One row per group."""
        require_channels(x, self.channels)
        require_rows(x, groups)
        if not isinstance(x, Tensor) or not _is_in_order(groups):
            x = take_rows(x, groups.order, groups.has_every_row)
        return cast(Tensor, self.aggregation(x, groups.index, dim_size=groups.num_groups, dim=0))

    def aggregate_static(self, x: Tensor, groups: StaticGroups) -> Tensor:
        """PyG's own module reads no sizes, and has no largest group."""
        require_channels(x, self.channels)
        return cast(Tensor, self.aggregation(x, groups.index, dim_size=groups.num_groups, dim=0))

    def aggregate_weighted(
        self, x: Tensor, groups: Groups | StaticGroups, weight: Tensor
    ) -> Tensor:
        """The sum, mean, variance or deviation with weights; zero where they add up to zero."""
        found = WEIGHTED.get(type(self.aggregation))
        if found is None:
            return super().aggregate_weighted(x, groups, weight)
        require_channels(x, self.channels)
        weight = weight_like(weight, x)
        if isinstance(groups, Groups) and not _is_in_order(groups):
            x, weight = x.index_select(0, groups.order), weight.index_select(0, groups.order)
        return found(x, weight, groups.index, groups.num_groups)

    def __repr__(self) -> str:
        return nn.Module.__repr__(self)


class MonoidAggregation(RaggedAggregation):
    """An exact monoid as an aggregation: encode every row, fold over balanced trees, decode.

    One whose answers are tuples, such as a product of monoids, gives a tuple of tensors.
    """

    def __init__(self, monoid: ExactMonoid) -> None:
        super().__init__()
        self.monoid = monoid

    def aggregate(self, x: Rows, groups: Groups) -> Tensor:
        """One row per group."""
        rows = x.gathered() if isinstance(x, TableRows) else cast(Tensor, x)
        require_rows(rows, groups)
        return self._folded(self.monoid.encode(rows), groups)

    def aggregate_static(self, x: Tensor, groups: StaticGroups) -> Tensor:
        """The same over a static plan."""
        return self._folded(self.monoid.encode(x), groups)

    def aggregate_weighted(
        self, x: Tensor, groups: Groups | StaticGroups, weight: Tensor
    ) -> Tensor:
        """The same with a weight for each row, if the monoid takes one."""
        return self._folded(self.monoid.encode_weighted(x, weight), groups)

    def _folded(self, states: State, groups: Groups | StaticGroups) -> Tensor:
        if isinstance(groups, StaticGroups):
            return cast(Tensor, self.monoid.decode(reduce_static(self.monoid, states, groups)))
        states = take_rows(states, groups.order, groups.has_every_row)
        found = tree_reduce(self.monoid, states, plan_of(groups, "balanced"))
        return cast(Tensor, self.monoid.decode(found))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.monoid!r})"


def _is_in_order(groups: Groups) -> bool:
    """True if the rows are sorted by group already: copying them took a tenth of a layer's time."""
    order = groups.order
    return order.is_cpu and torch.equal(order, torch.arange(groups.num_rows))
