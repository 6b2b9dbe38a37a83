"""Handles: names of elements that stay the same while the elements move."""

import torch
from torch import Tensor

from treefold.incremental.arena import bytes_of
from treefold.shapes import Int

_NUMBER_BITS = 32


class Elements:
    """For each element its slot and its set, found by its handle.

    A handle is the number of the element, and above it, in the higher bits, how often this number
    has been given away before: a handle that is no longer valid is noticed, not mistaken.
    """

    def __init__(self, slots: Int[Tensor, " n"], sets: Int[Tensor, " n"]) -> None:
        self.slots = slots.clone()
        """By number; -1 for numbers that are free."""
        self.sets = sets.clone()
        self.generations = torch.zeros_like(slots)
        self._free = slots.new_zeros(0)
        self._num_free = 0

    @property
    def num_bytes(self) -> int:
        """The memory of all arrays."""
        return bytes_of([self.slots, self.sets, self.generations, self._free])

    def handles_of(self, numbers: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """The handles of the elements with these numbers."""
        return self.generations[numbers] << _NUMBER_BITS | numbers

    def numbers_of(self, handles: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """The numbers of elements, or a ValueError if one is not there or is given twice."""
        numbers, generations = number_of(handles), handles >> _NUMBER_BITS
        known = (handles >= 0) & (numbers < self.slots.numel())
        seen = numbers.masked_fill(~known, 0)
        if self.slots.numel():
            known &= (self.slots[seen] >= 0) & (self.generations[seen] == generations)
        if not bool(known.all()):
            wrong = handles[~known]
            raise ValueError(
                f"{wrong.numel()} of {handles.numel()} handles, the first of them "
                f"{int(wrong[0])}, name no element; it was removed or never inserted"
            )
        if handles.numel() > 1:
            in_order = handles.sort().values
            twice = in_order[1:][in_order[1:] == in_order[:-1]]
            if twice.numel():
                raise ValueError(f"handle {int(twice[0])} is given twice; give each once")
        return numbers

    def add(self, slots: Int[Tensor, " n"], sets: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """Numbers for new elements at these slots."""
        count = slots.numel()
        if count > self._num_free:
            self._extend(count - self._num_free)
        numbers = self._free[self._num_free - count : self._num_free].flip(0)
        self._num_free -= count
        self.slots[numbers], self.sets[numbers] = slots, sets
        return numbers

    def remove(self, numbers: Int[Tensor, " n"]) -> None:
        """Make these numbers free; their handles are not valid any more."""
        self.slots[numbers] = -1
        self.generations[numbers] += 1
        end = self._num_free + numbers.numel()
        if end > self._free.numel():
            more = self._free.new_empty(max(end, self.slots.numel()) - self._free.numel())
            self._free = torch.cat([self._free, more])
        self._free[self._num_free : end] = numbers
        self._num_free = end

    def restore(self, generations: Int[Tensor, " numbers"]) -> None:
        """Continue where saved elements were: those without a slot are free numbers."""
        self.generations = generations.clone()
        self._free = (self.slots < 0).nonzero().squeeze(1).flip(0)
        self._num_free = self._free.numel()

    def _extend(self, at_least: int) -> None:
        old = self.slots.numel()
        count = max(at_least, old)
        more = torch.arange(old, old + count, device=self.slots.device)
        self.slots = torch.cat([self.slots, torch.full_like(more, -1)])
        self.sets = torch.cat([self.sets, torch.zeros_like(more)])
        self.generations = torch.cat([self.generations, torch.zeros_like(more)])
        # The lowest numbers lie on top; numbers that were free before, above them.
        waiting = self._free[: self._num_free]
        self._free = torch.cat([more.flip(0), waiting])
        self._num_free = self._free.numel()


def number_of(handles: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The number in a handle: small, and unique among the elements that exist."""
    return handles & ((1 << _NUMBER_BITS) - 1)
