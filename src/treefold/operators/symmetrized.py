"""Any function of two arguments, made commutative by averaging both orders."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from treefold.operators.operator import Operator
from treefold.shapes import Float


class Symmetrized(Operator):
    """The operator a ⊕ b = ½ (f(a, b) + f(b, a)), with a learned identity.

    `function` is any module or function of two tensors `[*n, channels]`.
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], channels: int) -> None:
        super().__init__(channels)
        self.function = function
        self.identity = self.learned_identity()

    def reset_parameters(self) -> None:
        """Reset the function, if it knows how, and set the identity to zero."""
        reset = getattr(self.function, "reset_parameters", None)
        if reset is not None:
            reset()
        nn.init.zeros_(self.identity)

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row, with one call of the function for both orders."""
        a, b = torch.broadcast_tensors(a, b)
        both = self.function(torch.stack([a, b]), torch.stack([b, a]))
        return both.mean(0)
