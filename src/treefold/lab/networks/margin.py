"""Margins: how far from zero a network's numbers are, next to all that rounding can do to them."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

ROUNDOFF = 2.0**-24
"""The rounding of float32; finer types are within it too."""
_GELU_SLOPE, _GELU_ROUNDOFF = 1.13, 16 * ROUNDOFF


class Bounded(NamedTuple):
    """Values in float64, and how far from them any evaluation in float32 can be."""

    value: Tensor
    error: Tensor

    @property
    def margin(self) -> float:
        """The smallest distance from zero that rounding leaves: signs are proved if it is positive.

        The largest error is taken off, whatever the order in which a machine adds.
        """
        return float((self.value.abs() - self.error).min())


@torch.no_grad()
def bounded(module: nn.Module, x: Tensor | Bounded) -> Bounded:
    """Run `module` on rows and bound its rounding: linear layers, ReLU, GELU, and chains of them.

    A sum of n products in any order is off by at most n u / (1 - n u) of the sum of their sizes
    (Higham, Accuracy and Stability, §3.1). Of torch's GELU an error of 16 u is assumed, twice what
    its error function promises. Not for TF32 or autocast, which round more coarsely.
    """
    x = x if isinstance(x, Bounded) else Bounded(x.double(), torch.zeros_like(x).double())
    if isinstance(module, nn.Sequential):
        for part in module:
            x = bounded(part, x)
        return x
    if isinstance(module, nn.Linear):
        weight = module.weight.double()
        bias = torch.zeros(len(weight)).to(weight) if module.bias is None else module.bias.double()
        terms = (weight.shape[1] + 1) * ROUNDOFF
        size = (x.value.abs() + x.error) @ weight.abs().T + bias.abs()
        error = x.error @ weight.abs().T + terms / (1 - terms) * size
        return Bounded(x.value @ weight.T + bias, error)
    if isinstance(module, nn.ReLU):
        return Bounded(x.value.relu(), x.error)
    if isinstance(module, nn.GELU):
        rounding = _GELU_ROUNDOFF * (x.value.abs() + x.error)
        return Bounded(module(x.value), _GELU_SLOPE * x.error + rounding)
    raise ValueError(
        f"the rounding of {type(module).__name__} is not bounded here; expected linear layers, "
        "ReLU, GELU, and nn.Sequential of them"
    )
