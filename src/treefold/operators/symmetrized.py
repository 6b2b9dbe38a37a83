"""Any function of two arguments, made commutative by averaging both orders."""

from collections.abc import Callable
from inspect import getclosurevars, isfunction

import torch
from torch import Tensor, nn

from treefold.operators.operator import Operator
from treefold.shapes import Float


class Symmetrized(Operator):
    """The operator a ⊕ b = ½ (f(a, b) + f(b, a)), with a learned identity.

    `function` is a module of two tensors `[n, channels]`, row by row, or a plain function if there
    is nothing in it to learn.
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], channels: int) -> None:
        super().__init__(channels)
        _require_no_hidden_parameters(function)
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


def _require_no_hidden_parameters(function: Callable[..., Tensor]) -> None:
    """Refuse a plain function around something that learns: nobody would find its parameters."""
    if not isfunction(function):
        return
    used = getclosurevars(function)
    for name, value in {**used.globals, **used.nonlocals}.items():
        if isinstance(value, nn.Module | nn.Parameter):
            raise ValueError(
                f"the function uses {name}, a {type(value).__name__}, which optimisers and "
                "`state_dict` would not see; give a module that holds it, with a forward(a, b)"
            )
