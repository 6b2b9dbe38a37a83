"""Signal mixing (SSMA): a set as a product of polynomials, taken in Fourier space."""

import math
from typing import cast

import torch
from torch import Tensor, nn

from treefold.aggr.base import (
    RaggedAggregation,
    checked_channels,
    require_channels,
    require_type,
)
from treefold.aggr.static import StaticGroups
from treefold.algebra import ExactMonoid
from treefold.fold import Groups, Rows, require_rows, take_rows
from treefold.operators import autocast_device, reset_parts

SMALLEST = 1e-6
"""Added to squared magnitudes, whose logarithm is taken."""


class SignalMixing(nn.Module, ExactMonoid):
    """Adds logarithms of magnitudes, phases and counts of the Fourier transforms of elements.

    Each element is mapped to the coefficients of a polynomial in two variables, `side` x `side`,
    and transformed on a grid of `2 side - 1` points each way, where a product of polynomials is a
    product of numbers. So a state is, for each frequency, a sum of log magnitudes and a sum of
    phases, and a count: sums, which may be merged in any order. `decode` divides log magnitudes by
    the count, transforms back, and maps to channels.

    After Taraday, Bronstein and Chamberlain's sequential signal mixing aggregation (NeurIPS 2024),
    from its description. It fixes no number of neighbours; products of more than two polynomials
    wrap around the grid.
    """

    turns: Tensor
    turns_back: Tensor
    repeats: Tensor

    def __init__(self, channels: int, side: int | None = None) -> None:
        super().__init__()
        side = math.isqrt(channels - 1) + 1 if side is None else side
        if side < 1:
            raise ValueError(f"side is {side}; expected 1 or more")
        self.channels, self.side = channels, side
        self.to_signal = nn.Linear(channels, side * side)
        self.from_signal = nn.Linear((2 * side - 1) ** 2, channels)
        turns, turns_back, repeats = _turns(side)
        self.register_buffer("turns", turns, persistent=False)
        self.register_buffer("turns_back", turns_back, persistent=False)
        self.register_buffer("repeats", repeats, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights again; polynomials begin near the constant 1, far from any zero."""
        reset_parts(self)
        with torch.no_grad():
            self.to_signal.bias[0] += 1

    @property
    def identity(self) -> Tensor:
        """Zero, of everything."""
        return self.from_signal.weight.new_zeros(2 * self.repeats.shape[0] + 1)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Add."""
        return a + b

    def encode(self, x: Tensor) -> Tensor:
        """The log magnitudes, phases and count of one element, for every row."""
        signals = self.to_signal(x)
        angles = self._angles(self.turns, x)
        real, imaginary = signals @ angles.cos(), signals @ -angles.sin()
        magnitudes = (real.square() + imaginary.square() + SMALLEST).log() / 2
        one = torch.ones_like(magnitudes[..., :1])
        return torch.cat([magnitudes, torch.atan2(imaginary, real), one], -1)

    def decode(self, state: Tensor) -> Tensor:
        """The answer for every state; zero for the identity."""
        half = self.repeats.shape[0]
        log_magnitudes, phases, count = state.split([half, half, 1], -1)
        magnitudes = (log_magnitudes / count.clamp(min=1)).exp() * self.repeats
        angles = self._angles(self.turns_back, state)
        real, imaginary = magnitudes * phases.cos(), magnitudes * phases.sin()
        mixed = (real @ angles.cos() - imaginary @ angles.sin()) / angles.shape[1]
        answer: Tensor = self.from_signal(mixed)
        return answer.masked_fill(count == 0, 0)

    def _angles(self, turns: Tensor, like: Tensor) -> Tensor:
        return turns.to(like.dtype) * (2 * math.pi / (2 * self.side - 1))


class SignalMixingAggregation(RaggedAggregation):
    """Sums the states of `SignalMixing` over each group; empty groups give zero."""

    def __init__(self, channels: int, side: int | None = None) -> None:
        super().__init__()
        self.channels = self.in_channels = self.out_channels = checked_channels(channels)
        self.monoid = SignalMixing(channels, side)

    def reset_parameters(self) -> None:
        """Draw all weights again."""
        self.monoid.reset_parameters()

    def aggregate(self, x: Rows, groups: Groups) -> Tensor:
        """One row per group."""
        require_rows(x, groups)
        rows = cast(Tensor, take_rows(x, groups.order, groups.has_every_row))
        return self._mixed(rows, groups.index, groups.num_groups)

    def aggregate_static(self, x: Tensor, groups: StaticGroups) -> Tensor:
        """The same; sums need no sizes."""
        return self._mixed(x, groups.index, groups.num_groups)

    def _mixed(self, x: Tensor, index: Tensor, num_groups: int) -> Tensor:
        require_channels(x, self.channels)
        require_type(x, self.monoid)
        # Phases of many elements add up: no place for half precision.
        with torch.autocast(autocast_device(x), enabled=False):
            states = self.monoid.encode(x.to(self.monoid.to_signal.weight.dtype))
            sums = states.new_zeros(num_groups, *states.shape[1:]).index_add(0, index, states)
            return self.monoid.decode(sums)


def _turns(side: int) -> tuple[Tensor, Tensor, Tensor]:
    """Exponents of the transforms there and back, and how often each frequency counts.

    Kept as integers, they are exact in every type. Signals are real, so half of the frequencies
    along the second axis are enough: all but the first count twice.
    """
    grid = 2 * side - 1
    points = torch.cartesian_prod(torch.arange(grid), torch.arange(grid))
    frequencies = torch.cartesian_prod(torch.arange(grid), torch.arange(side))
    coefficients = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    turns, turns_back = coefficients @ frequencies.T % grid, frequencies @ points.T % grid
    return turns, turns_back, torch.where(frequencies[:, 1] == 0, 1, 2)
