"""Counting values: histograms, and the most frequent value they point at."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from treefold.algebra.exact import ExactMonoid


@dataclass(frozen=True)
class Histogram(ExactMonoid):
    """Counts of the integers 0, ..., num_values - 1: `[*n, num_values]`, int64."""

    num_values: int

    def __post_init__(self) -> None:
        if self.num_values < 1:
            raise ValueError(f"{self.num_values} values leave nothing to count; use at least 1")

    @property
    def identity(self) -> Tensor:
        """No counts."""
        return torch.tensor(0)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Add the counts."""
        return a + b

    def encode(self, x: Tensor) -> Tensor:
        """A single count, at x."""
        if x.is_floating_point():
            raise ValueError(f"only integers can be counted, and x is {x.dtype}; convert it first")
        return F.one_hot(x.to(torch.int64), self.num_values)


@dataclass(frozen=True)
class Mode(Histogram):
    """The most frequent of the integers 0, ..., num_values - 1, and the smallest of several.

    A state is a histogram, `[*n, num_values]`. Of nothing the mode is 0: all are equally frequent.
    """

    def decode(self, state: Tensor) -> Tensor:
        """The first value with the largest count."""
        return state.argmax(dim=-1)
