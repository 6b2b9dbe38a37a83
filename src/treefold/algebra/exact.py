"""Monoids known in closed form: what they share, and the four that act on plain tensors."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from treefold.algebra.monoid import State


class ExactMonoid(ABC):
    """A commutative monoid with maps into and out of it: aggregate = decode ∘ fold ∘ encode.

    `encode` and `decode` are the paper's `enc` and `dec` (subsec:limitations_on_expressivity).
    Both do nothing here; a monoid whose state is not the value itself brings its own.
    """

    @property
    @abstractmethod
    def identity(self) -> State:
        """The element e with e ⊕ a = a = a ⊕ e, as zero-dimensional tensors that broadcast."""

    @abstractmethod
    def __call__(self, a: Any, b: Any, /) -> State:
        """Combine two stacks of elements, one by one."""

    def encode(self, x: Tensor) -> State:
        """The elements that stand for the values `x`, `[n, *feature]`."""
        return x

    def encode_weighted(self, x: Tensor, weight: Tensor) -> State:
        """The same where row i is there `weight[i]` times, which may be a fraction."""
        raise ValueError(
            f"{type(self).__name__} takes no weights; they have a meaning for Sum, Mean, Variance, "
            "LogSumExp, and products of these"
        )

    def decode(self, state: Any) -> Any:
        """The values that the elements of `state` stand for."""
        return state


@dataclass(frozen=True)
class Sum(ExactMonoid):
    """Addition, with 0; booleans are encoded as integers."""

    @property
    def identity(self) -> Tensor:
        """Zero."""
        return torch.tensor(0)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Add."""
        return a + b

    def encode(self, x: Tensor) -> Tensor:
        """`x` itself, in a type that can be added."""
        return as_numbers(x)

    def encode_weighted(self, x: Tensor, weight: Tensor) -> Tensor:
        """The weight times x."""
        return x * weight_like(weight, x)


@dataclass(frozen=True)
class Max(ExactMonoid):
    """The larger of two, on the numbers from `bottom` upwards, which is the identity.

    `Max(bottom=0.0)` is the paper's monoid (ℝⁿ, max, 0): it is one on nonnegative numbers only.
    """

    bottom: float = -math.inf

    @property
    def identity(self) -> Tensor:
        """The bottom."""
        return torch.tensor(self.bottom, dtype=torch.float64)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Take the larger, entry by entry."""
        return torch.maximum(a, b)


@dataclass(frozen=True)
class Min(ExactMonoid):
    """The smaller of two, on the numbers up to `top`, which is the identity."""

    top: float = math.inf

    @property
    def identity(self) -> Tensor:
        """The top."""
        return torch.tensor(self.top, dtype=torch.float64)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Take the smaller, entry by entry."""
        return torch.minimum(a, b)


@dataclass(frozen=True)
class LogSumExp(ExactMonoid):
    """log(exp a + exp b), with -inf: the sum of numbers known by their logarithms."""

    @property
    def identity(self) -> Tensor:
        """The logarithm of zero."""
        return torch.tensor(-math.inf)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Add in the log domain; gradients are finite for infinite arguments too."""
        # At (-inf, -inf) logaddexp has NaN gradients. Equal arguments share the gradient equally,
        # infinite or not, which is what their mean does.
        same = a.isinf() & (a == b)
        finite = torch.logaddexp(a.masked_fill(same, 0), b.masked_fill(same, 0))
        return torch.where(same, (a + b) / 2, finite)

    def encode_weighted(self, x: Tensor, weight: Tensor) -> Tensor:
        """The logarithm of the weight times exp x; a weight of zero gets no gradient."""
        weight = weight_like(weight, x)
        none = weight == 0
        return x + weight.masked_fill(none, 1).log().masked_fill(none, -math.inf)


def as_numbers(x: Tensor) -> Tensor:
    """`x`, with booleans as integers: they would add up to a boolean."""
    return x.to(torch.int64) if x.dtype == torch.bool else x


def weight_like(weight: Tensor, x: Tensor) -> Tensor:
    """One weight per row, in as many axes as the rows have."""
    if weight.shape != x.shape[:1]:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}; expected ({x.shape[0]},), one for each row"
        )
    return weight.view(-1, *(1 for _ in x.shape[1:]))
