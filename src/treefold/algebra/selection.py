"""Monoids that keep the k smallest or the k largest: sort together, cut to k."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.algebra.exact import ExactMonoid
from treefold.algebra.monoid import extremes


@dataclass(frozen=True)
class KthMinimum(ExactMonoid):
    """The k-th smallest value, counting repetitions; `KthMinimum(2)` is the paper's 2nd-minimum.

    A state is `[*n, k]`: the k smallest so far, ascending. Of fewer than k values the k-th is +inf
    (for integers, the largest of their type).
    """

    k: int = 2

    def __post_init__(self) -> None:
        _check_k(self.k)

    @property
    def identity(self) -> Tensor:
        """+inf, k times."""
        return torch.tensor(math.inf)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """The k smallest of both, ascending."""
        return torch.cat([a, b], dim=-1).sort(dim=-1).values[..., : self.k]

    def encode(self, x: Tensor) -> Tensor:
        """(x, +inf, ..., +inf)."""
        return _pad(x, self.k, extremes(x.dtype)[1])

    def decode(self, state: Tensor) -> Tensor:
        """The k-th smallest."""
        return state[..., -1]


@dataclass(frozen=True)
class TopK(ExactMonoid):
    """The k largest values, `[*n, k]`, descending, filled up with -inf (or the lowest integer)."""

    k: int

    def __post_init__(self) -> None:
        _check_k(self.k)

    @property
    def identity(self) -> Tensor:
        """-inf, k times."""
        return torch.tensor(-math.inf)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """The k largest of both, descending."""
        return torch.cat([a, b], dim=-1).sort(dim=-1, descending=True).values[..., : self.k]

    def encode(self, x: Tensor) -> Tensor:
        """(x, -inf, ..., -inf)."""
        return _pad(x, self.k, extremes(x.dtype)[0])

    def decode(self, state: Tensor) -> Tensor:
        """All k of them."""
        return state


def _pad(x: Tensor, k: int, value: float | int) -> Tensor:
    return torch.cat([x.unsqueeze(-1), x.new_full((*x.shape, k - 1), value)], dim=-1)


def _check_k(k: int) -> None:
    if k < 1:
        raise ValueError(f"k = {k} keeps nothing; use k of at least 1")
