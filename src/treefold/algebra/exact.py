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


def as_numbers(x: Tensor) -> Tensor:
    """`x`, with booleans as integers: they would add up to a boolean."""
    return x.to(torch.int64) if x.dtype == torch.bool else x
