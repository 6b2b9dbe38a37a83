"""A codebook: distinct states, numbered in the order in which they were found."""

import math

import torch
from torch import Tensor

from treefold.algebra import State, map_state, take, tensors_of


class Codebook:
    """States by number and numbers by state; equality is exact, to the last bit.

    States are stacks of tensors, or tuples of such. Rows are found by a 64-bit hash and compared in
    full, so that an answer never depends on hashes being distinct.
    """

    def __init__(self, states: State) -> None:
        """A book of the distinct rows of `states`, in their order."""
        self.states = take(states, slice(0))
        width = sum(_flat(part).shape[1] for part in tensors_of(states))
        generator = torch.Generator().manual_seed(0)
        self._factors = torch.randint(-(2**62), 2**62, (width,), generator=generator) * 2 + 1
        self._sorted = self._numbers = torch.empty(0, dtype=torch.int64)
        self.add(states)

    def __len__(self) -> int:
        return len(tensors_of(self.states)[0])

    def find(self, states: State) -> Tensor:
        """The number of each row, or -1 where it is not in the book."""
        hashes = self._hash(states)
        if not len(self):
            return torch.full_like(hashes, -1)
        place = torch.searchsorted(self._sorted, hashes).clamp(max=len(self) - 1)
        numbers = self._numbers[place]
        known = torch.nonzero(self._sorted[place] == hashes).squeeze(1)
        same = _rows_equal(take(states, known), take(self.states, numbers[known]))
        if not same.all():
            raise RuntimeError("two states have one 64-bit hash; no answer can be given for them")
        found = torch.full_like(numbers, -1)
        found[known] = numbers[known]
        return found

    def add(self, states: State) -> Tensor:
        """Add the rows that are new; gives the places in `states` where they first occur."""
        hashes = self._hash(states)
        places = torch.nonzero(self.find(states) < 0).squeeze(1)
        distinct, group = hashes[places].unique(return_inverse=True)
        first = torch.full_like(distinct, len(places)).scatter_reduce(
            0, group, torch.arange(len(places)), "amin"
        )
        if not _rows_equal(take(states, places), take(states, places[first[group]])).all():
            raise RuntimeError("two states have one 64-bit hash; no answer can be given for them")
        places = places[first.sort().values]
        self.states = map_state(
            lambda old, new: torch.cat([old, new]), self.states, take(states, places)
        )
        numbers = torch.arange(len(self) - len(places), len(self))
        merged, order = torch.cat([self._sorted, hashes[places]]).sort()
        self._sorted, self._numbers = merged, torch.cat([self._numbers, numbers])[order]
        return places

    def _hash(self, states: State) -> Tensor:
        parts = tensors_of(states)
        if len(parts) == 1 and parts[0].dtype == torch.uint8 and 0 < len(self._factors) < 1 << 11:
            # As matrix products: all sums are whole numbers below 2^24, which float32 adds exactly.
            largest = (1 << 24) // (255 * len(self._factors))
            factors = torch.stack([self._factors.roll(k) % largest for k in range(8)], 1)
            sums = (_flat(parts[0]).float() @ factors.float()).long()
            return (sums * self._factors[0].pow(torch.arange(1, 9))).sum(1)
        rows = torch.cat([_flat(_bits(part)) for part in tensors_of(states)], 1)
        mixed = (rows * self._factors).sum(1)  # wraps around, as it should
        return mixed ^ (mixed >> 29)


def _bits(part: Tensor) -> Tensor:
    """Whole numbers that are equal where, and only where, the entries are."""
    if part.is_floating_point():
        bits = (part.double() + 0.0).view(torch.int64)  # without -0
        return bits ^ (bits >> 26) ^ (bits >> 52)  # signs and exponents are mixed into all bits
    return part.to(torch.int64)


def _flat(part: Tensor) -> Tensor:
    return part.reshape(len(part), math.prod(part.shape[1:]))


def _rows_equal(a: State, b: State) -> Tensor:
    same = [_flat(x == y).all(1) for x, y in zip(tensors_of(a), tensors_of(b), strict=True)]
    return torch.stack(same).all(0)
