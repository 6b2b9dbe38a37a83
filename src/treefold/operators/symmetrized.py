"""Any function of two arguments, made commutative by averaging both orders."""

from collections.abc import Callable

import torch
from torch import Tensor

from treefold.operators.operator import Operator
from treefold.shapes import Float


class Symmetrized(Operator):
    """The operator a ⊕ b = ½ (f(a, b) + f(b, a)), with a learned identity.

    `function` is any module or function of two tensors `[n, channels]`, row by row.
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], channels: int) -> None:
        super().__init__(channels)
        self.function = function
        self.identity = self.learned_identity()

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row, with one call of the function for both orders."""
        rows_a, rows_b = a.reshape(-1, self.channels), b.reshape(-1, self.channels)
        both = self.function(torch.cat([rows_a, rows_b]), torch.cat([rows_b, rows_a]))
        forth, back = both.chunk(2) if both.shape[0] else (both, both)
        return ((forth + back) / 2).view(a.shape)
