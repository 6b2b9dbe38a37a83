"""Gated selection: each channel is copied from one of the arguments, or newly written."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.fold import Fold, Rows, TreePlan
from treefold.operators.engine.folding import Parameters, TreeFold
from treefold.operators.engine.opaque import OpaqueFold, fold_opaque
from treefold.operators.operator import Operator
from treefold.shapes import Float


class GatedSelection(Operator):
    """The operator a ⊕ b = k (s a + (1 - s) b) + (1 - k) n, with a learned identity.

    The gates k (keep) and s (select), between 0 and 1, and the new value n come from both arguments
    through one hidden layer. Exchanging the arguments turns s into 1 - s and leaves k and n as they
    are, so it is commutative by construction. Where a gate is shut, a channel is a copy, and a copy
    of a copy is still exact: what one merge gets right, a thousand merges do not wear away. An
    average of both argument orders, as in Binary-GRU, cannot copy.

    A sigmoid never shuts for good, and rare states meet gates that are far from shut. With
    `stretch`, a gate is a sigmoid stretched beyond 0 and 1 by that much, and cut off there.

    Without `selects`, s is ½ everywhere; without `writes`, k is 1.
    """

    def __init__(
        self,
        channels: int,
        hidden_channels: int | None = None,
        *,
        selects: bool = True,
        writes: bool = True,
        stretch: float = 0.0,
    ) -> None:
        super().__init__(channels)
        if not stretch >= 0:
            raise ValueError(f"stretch is {stretch}; expected 0 or more")
        self.stretch = stretch
        hidden_channels = channels if hidden_channels is None else hidden_channels
        self.hidden = nn.Linear(channels, 2 * hidden_channels)
        self.select = nn.Linear(hidden_channels, channels, bias=False) if selects else None
        self.keep_and_new = nn.Linear(hidden_channels, 2 * channels) if writes else None
        self.identity = self.learned_identity()

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row."""
        return _FOLD.combined(self, a, b, self._parameters_of_fold(), self.stretch)

    def fold_tree(self, x: Rows, plan: TreePlan) -> Fold:
        """Fold every group: the same as `fold_levels(self, x, plan)`, faster where it can be."""
        return _FOLD.fold(self, x, plan, self._parameters_of_fold(), self.stretch)

    def fold_opaque(self, *given: Any) -> OpaqueFold | None:
        """Fold every group in one operation under torch.compile; None where that cannot be."""
        return fold_opaque(_FOLD, self, self._parameters_of_fold(), (self.stretch,), *given)

    def _parameters_of_fold(self) -> Parameters:
        select, write = self.select, self.keep_and_new
        return (
            *(self.hidden.weight, self.hidden.bias, None if select is None else select.weight),
            *((None, None) if write is None else (write.weight, write.bias)),
        )


def stretched_gate(x: Tensor, stretch: float) -> Tensor:
    """A sigmoid; with `stretch`, stretched beyond 0 and 1 by that much, and cut off there."""
    gate = x.sigmoid()
    if not stretch:
        return gate
    return ((1 + 2 * stretch) * gate - stretch).clamp(0, 1)


def _combine(
    a: Tensor,
    b: Tensor,
    parameters: Parameters,
    factor_type: torch.dtype,
    settings: Sequence[float],
) -> Tensor:
    """In plain operations."""
    hidden, hidden_bias, select, write, write_bias = parameters
    (stretch,) = settings
    linear = partial(_linear, factor_type=factor_type)
    # `hidden` has the weights for a first and for a second argument, one after the other.
    a_first, a_second = linear(a, hidden, hidden_bias).chunk(2, -1)
    b_first, b_second = linear(b, hidden, hidden_bias).chunk(2, -1)
    ab, ba = F.gelu(a_first + b_second), F.gelu(b_first + a_second)
    if select is None:
        chosen = (a + b) / 2
    else:  # `lerp` is exact at both ends
        chosen = torch.lerp(b, a, stretched_gate(linear(ab - ba, select), stretch))
    if write is None:
        return chosen
    keep, new = linear(ab + ba, write, write_bias).chunk(2, -1)
    return torch.lerp(new.tanh(), chosen, stretched_gate(keep, stretch))


def _linear(
    x: Tensor, weight: Tensor | None, bias: Tensor | None = None, *, factor_type: torch.dtype
) -> Tensor:
    """A linear layer whose factors are of that type; its sums have the type of `x`."""
    weight = cast(Tensor, weight).to(factor_type)
    bias = None if bias is None else bias.to(factor_type)
    return F.linear(x.to(factor_type), weight, bias).to(x.dtype)


def _num_saved(parameters: Parameters) -> int | torch.SymInt:
    """The hidden layer for both orders; one gate of selecting, and writing's with what is new."""
    hidden, _, select, write, _ = parameters
    return sum(each.shape[0] for each in (hidden, select, write) if each is not None)


_FOLD = TreeFold("gated_selection", 5, _num_saved, _combine)
