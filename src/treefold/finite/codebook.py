"""A codebook: distinct states, numbered in the order in which they were found."""

import math

import torch
from torch import Tensor

from treefold.algebra import State, map_state, take, tensors_of


class Codebook:
    """States by number and numbers by state; equality is exact, to the last bit.

    States are stacks of tensors, or tuples of such. Rows are found by a 64-bit hash and compared in
    full: an answer never depends on hashes being distinct.
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
        return self._find(states, self._hash(states))

    def add(self, states: State) -> tuple[Tensor, Tensor]:
        """Add the rows that are new; gives all numbers, and where new ones come first."""
        hashes = self._hash(states)
        numbers, known = self._find(states, hashes), len(self)
        places = torch.nonzero(numbers < 0).squeeze(1)
        distinct, group = hashes[places].unique(return_inverse=True)
        first = first_places(group, len(distinct))
        _require_equal(rows_of(states, places), rows_of(states, places[first[group]]))
        numbers[places] = known + first.argsort().argsort()[group]
        places = places[first.sort().values]
        self.states = map_state(
            lambda old, new: torch.cat([old, new]), self.states, rows_of(states, places)
        )
        merged, order = torch.cat([self._sorted, hashes[places]]).sort()
        added = torch.arange(known, len(self))
        self._sorted, self._numbers = merged, torch.cat([self._numbers, added])[order]
        return numbers, places

    def _find(self, states: State, hashes: Tensor) -> Tensor:
        if not len(self):
            return torch.full_like(hashes, -1)
        place = torch.searchsorted(self._sorted, hashes).clamp(max=len(self) - 1)
        numbers = self._numbers[place]
        known = torch.nonzero(self._sorted[place] == hashes).squeeze(1)
        _require_equal(rows_of(states, known), rows_of(self.states, numbers[known]))
        found = torch.full_like(numbers, -1)
        found[known] = numbers[known]
        return found

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


def rows_of(states: State, numbers: Tensor) -> State:
    """The rows with these numbers, in this order; faster than indexing."""
    return map_state(lambda part: part.index_select(0, numbers), states)


def first_places(numbers: Tensor, count: int) -> Tensor:
    """The place of the first 0, of the first 1, and so on; 0 where there is none."""
    blank = torch.zeros(count, dtype=torch.int64)
    return blank.scatter_reduce(0, numbers, torch.arange(len(numbers)), "amin", include_self=False)


def equal(a: State, b: State) -> bool:
    """True if two stacks of states are equal."""
    return not any(
        bool((x ^ y if x.dtype == torch.uint8 else x != y).any())  # bytes: eight at a time
        for x, y in zip(tensors_of(a), tensors_of(b), strict=True)
    )


def _require_equal(a: State, b: State) -> None:
    if not equal(a, b):
        raise RuntimeError("two states have one 64-bit hash; no answer can be given for them")
