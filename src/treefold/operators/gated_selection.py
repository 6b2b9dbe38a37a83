"""Gated selection: each channel is copied from one of the arguments, or newly written."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
        # `hidden` holds the weights for a first and for a second argument, side by side.
        a_first, a_second = self.hidden(a).chunk(2, -1)
        b_first, b_second = self.hidden(b).chunk(2, -1)
        ab, ba = F.gelu(a_first + b_second), F.gelu(b_first + a_second)
        if self.select is None:
            chosen = (a + b) / 2
        else:
            # `lerp` is exact at both ends. Under autocast, layers give another type of number.
            chosen = torch.lerp(b, a, self._gate(self.select(ab - ba)).to(a.dtype))
        if self.keep_and_new is None:
            return chosen
        keep, new = self.keep_and_new(ab + ba).to(a.dtype).chunk(2, -1)
        return torch.lerp(new.tanh(), chosen, self._gate(keep))

    def _gate(self, x: Tensor) -> Tensor:
        gate = x.sigmoid()
        if not self.stretch:
            return gate
        return ((1 + 2 * self.stretch) * gate - self.stretch).clamp(0, 1)
