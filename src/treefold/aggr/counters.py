"""Finite counters as an aggregator: a linear map gives what each row counts."""

from collections.abc import Sequence

from torch import Tensor, nn

from treefold.aggr.base import checked_channels
from treefold.aggr.lcm import LCMAggregation
from treefold.operators import FiniteCounters
from treefold.saving import Saved


class Logits(Saved, nn.Linear):
    """A linear layer whose rows keep their type, under autocast too."""

    def forward(self, x: Tensor) -> Tensor:
        """The logits of what rows count."""
        return super().forward(x).to(x.dtype)


def finite_counters(
    channels: int,
    kinds: Sequence[Sequence[int]] = ((2, 1),),
    state_channels: int | None = None,
) -> LCMAggregation:
    """An LCM of `FiniteCounters`, whose states are as wide as rows unless `state_channels` differ.

    Each row goes through a linear map to the logits of what it counts.
    """
    state_channels = checked_channels(channels) if state_channels is None else state_channels
    operator = FiniteCounters(state_channels, kinds)
    return LCMAggregation(state_channels, operator, project=Logits(channels, state_channels))
