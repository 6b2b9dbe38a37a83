"""Monoids on integers: or and exclusive or, and the greatest common divisor."""

from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.algebra.exact import ExactMonoid


@dataclass(frozen=True)
class BitwiseOr(ExactMonoid):
    """Or of the bits, with 0; of booleans, whether any is true."""

    @property
    def identity(self) -> Tensor:
        """Zero."""
        return torch.tensor(0)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Or, bit by bit."""
        return torch.bitwise_or(a, b)


@dataclass(frozen=True)
class BitwiseXor(ExactMonoid):
    """Exclusive or of the bits, with 0; of booleans, whether an odd number is true."""

    @property
    def identity(self) -> Tensor:
        """Zero."""
        return torch.tensor(0)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Exclusive or, bit by bit."""
        return torch.bitwise_xor(a, b)


@dataclass(frozen=True)
class Gcd(ExactMonoid):
    """The greatest common divisor on integers from 0 upwards, with 0, which everything divides."""

    @property
    def identity(self) -> Tensor:
        """Zero."""
        return torch.tensor(0)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """The greatest common divisor, entry by entry."""
        return torch.gcd(a, b)

    def encode(self, x: Tensor) -> Tensor:
        """The absolute value."""
        return x.abs()
