"""Distances between two stacks of elements that should be equal."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.algebra.monoid import State, map_state, tensors_of


@dataclass(frozen=True, eq=False)
class Violation:
    """The distance between two stacks of elements, sample by sample; NaN where either has one.

    `absolute`, `[n]`: the Euclidean norm of the difference, over all feature axes and all tensors
    of the state. `relative`, `[n]`: the same, divided by the larger of the two norms (0 / 0 = 0).

    Infinities that are equal on both sides differ by 0 and do not count towards the norms, which
    they would swamp. Other infinities are violated infinitely, in both measures.
    """

    absolute: Tensor
    relative: Tensor

    def within(self, rtol: float, atol: float) -> Tensor:
        """A mask `[n]` of the samples within `atol`, or relatively within `rtol`."""
        return (self.absolute <= atol) | (self.relative <= rtol)


def compare(left: State, right: State) -> Violation:
    """Measure how far `left` is from `right`, without recording gradients."""
    with torch.no_grad():
        absolute = _norms(map_state(difference, left, right))
        scale = torch.maximum(
            _norms(map_state(_without_common_infinities, left, right)),
            _norms(map_state(_without_common_infinities, right, left)),
        )
        relative = (absolute / scale).masked_fill(absolute == 0, 0)
        return Violation(absolute, relative.masked_fill(absolute == math.inf, math.inf))


def difference(left: Tensor, right: Tensor) -> Tensor:
    """`left - right`, with inf - inf = 0; at least single precision, and only a size for integers.

    Gradients flow, and they are finite wherever those of `left` and `right` are.
    """
    if left.shape != right.shape:
        raise ValueError(
            f"the two sides have shapes {tuple(left.shape)} and {tuple(right.shape)}; "
            "operators and laws should keep the shape of their arguments"
        )
    dtype = torch.promote_types(left.dtype, right.dtype)
    if not dtype.is_floating_point:
        # Large integers that differ may round to the same float: they still differ by 1 or more.
        return (_wide(left) - _wide(right)).abs().clamp(min=1).masked_fill(left == right, 0)
    dtype = torch.promote_types(dtype, torch.float32)
    return (left.to(dtype) - right.to(dtype)).masked_fill(left.isinf() & (left == right), 0)


def default_tolerance(*states: State) -> float:
    """ε^¾ for the coarsest floating type among `states` (6e-6 for float32), 0 for integers."""
    dtypes = {tensor.dtype for state in states for tensor in tensors_of(state)}
    return max(torch.finfo(t).eps ** 0.75 if t.is_floating_point else 0.0 for t in dtypes)


def _norms(state: State) -> Tensor:
    rows = [_wide(tensor).unsqueeze(-1).flatten(1) for tensor in tensors_of(state)]
    return torch.cat(rows, dim=1).square().sum(dim=1).sqrt()


def _without_common_infinities(tensor: Tensor, other: Tensor) -> Tensor:
    return tensor.masked_fill(tensor.isinf() & (tensor == other), 0)


def _wide(tensor: Tensor) -> Tensor:
    # Squares of single precision numbers overflow early; Apple's devices have nothing wider.
    return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)
