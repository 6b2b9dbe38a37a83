"""Counting in circles: sums, parities and counts modulo m."""

from abc import abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from treefold.algebra.exact import ExactMonoid, as_numbers


class Residues(ExactMonoid):
    """Addition of the residues 0, ..., m - 1, with 0: the interface of the monoids below."""

    m: int

    def __post_init__(self) -> None:
        if self.m < 1:
            raise ValueError(f"m = {self.m} is no modulus; use m of at least 1")

    @property
    def identity(self) -> Tensor:
        """Zero."""
        return torch.tensor(0)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Add modulo m."""
        return (a + b) % self.m

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """The residues that stand for the values `x`."""


@dataclass(frozen=True)
class SumModulo(Residues):
    """The sum modulo m, in 0, ..., m - 1."""

    m: int

    def encode(self, x: Tensor) -> Tensor:
        """The residues of `x`, of its type; booleans become integers."""
        return _widened(x, self.m) % self.m


@dataclass(frozen=True)
class Parity(Residues):
    """The parity of the sum: 1 if it is odd, 0 if it is even."""

    m: int = field(default=2, init=False, repr=False)

    def encode(self, x: Tensor) -> Tensor:
        """The parities of `x`, of its type; booleans become integers."""
        return _widened(x, self.m) % self.m


@dataclass(frozen=True)
class CountModulo(Residues):
    """The number of values, modulo m."""

    m: int

    def encode(self, x: Tensor) -> Tensor:
        """One for each value (zero if m = 1), of the type of `x`; booleans become integers."""
        return torch.ones_like(_widened(x, self.m)) % self.m


def _widened(x: Tensor, m: int) -> Tensor:
    """`x` as numbers whose type can hold the sum of two residues modulo `m`."""
    x = as_numbers(x)
    limit = 2 / torch.finfo(x.dtype).eps if x.is_floating_point() else torch.iinfo(x.dtype).max
    if 2 * (m - 1) > limit:
        raise ValueError(f"{x.dtype} cannot hold 2 · {m - 1} exactly; widen x to add modulo {m}")
    return x
