"""Fixed statistics and a learned state side by side: a product of monoids, with PNA's scalers."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from treefold.aggr.base import RaggedAggregation
from treefold.aggr.fixed import FixedAggregation
from treefold.aggr.lcm import LCMAggregation
from treefold.aggr.static import StaticGroups
from treefold.fold import Groups, Rows


class LearnedPNAAggregation(RaggedAggregation):
    """PNA's statistics next to a learned state, both unscaled, amplified and attenuated.

    A product of monoids is a monoid: nothing is lost by adding a learned operator to mean, max,
    min and std. Its answer is 15 times as wide as a row: PNA's twelve parts, then the state times
    1, ln(size + 1) / δ and δ / ln(size + 1). Where a group is empty, PNA's parts are zero and the
    state is the learned identity, whose attenuation counts the group as one of size 1, as PNA's.

    `mean_log` is δ, the mean of ln(size + 1) in training, that of groups of one if None;
    `learned_options` go to `LCMAggregation`.
    """

    def __init__(
        self,
        channels: int,
        mean_log: float | None = None,
        operator: str = "gated-selection",
        learned_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.fixed = FixedAggregation.pna(channels, mean_log=mean_log)
        self.learned = LCMAggregation(channels, operator, **(learned_options or {}))
        self.channels = self.in_channels = channels
        self.out_channels = 15 * channels

    def reset_parameters(self) -> None:
        """Draw the weights of the operator again."""
        self.fixed.reset_parameters()
        self.learned.reset_parameters()

    def aggregate(self, x: Rows, groups: Groups) -> Tensor:
        """One row per group."""
        fixed, state = (part.aggregate(x, groups) for part in (self.fixed, self.learned))
        return self._joined(fixed, state, groups.sizes)

    def aggregate_static(self, x: Tensor, groups: StaticGroups) -> Tensor:
        """The same over a static plan."""
        fixed, state = (part.aggregate_static(x, groups) for part in (self.fixed, self.learned))
        sizes = groups.index.new_zeros(groups.num_groups)
        return self._joined(
            fixed, state, sizes.index_add(0, groups.index, torch.ones_like(groups.index))
        )

    def _joined(self, fixed: Tensor, state: Tensor, sizes: Tensor) -> Tensor:
        sizes = sizes.view(-1, *[1] * (state.dim() - 1)).to(state.dtype)
        delta = cast(Tensor, self.fixed.aggregation.avg_deg_log).to(state.dtype)
        amplified = state * ((sizes + 1).log() / delta)
        attenuated = state * (delta / (sizes.clamp(min=1) + 1).log())
        return torch.cat([fixed, state, amplified, attenuated], -1)
