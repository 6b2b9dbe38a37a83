"""Storage for the trees of many sets: blocks whose sizes and positions are powers of two.

A set with capacity C = 2^h owns C slots in a row, starting at a multiple of C, and fills
them from the left. One array per level holds the nodes of all sets, and the parent of place p is
place p >> 1 one level up, whichever the set:

    level 2    0               1
    level 1    0       1       2       3
    level 0    a   b   c   d   e   f   .   .     two sets, {a, b, c, d} and {e, f}

Where a right child holds no elements its parent is the left child, and the operator is not applied.
So the tree over n elements is that of `plan_tree([n], "carry")`, of height ceil(log2 n).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from treefold.algebra import State, map_state, tensors_of
from treefold.fold import places_within, tree_heights
from treefold.shapes import Int

_NUMBER_BITS = 32


class TreeStorage:
    """The states of all nodes, the number of the element at each slot, the block of each set."""

    def __init__(self, like: State, sizes: Int[Tensor, " sets"]) -> None:
        self.like = map_state(lambda rows: rows[:0], like)
        self.sizes = sizes.clone()
        self.capacity = capacity_for(sizes)
        self.base, self.used = _packed(self.capacity, 0)
        self.element = self.base.new_full((_with_space(self.used, self.capacity),), -1)
        self.levels = [self._new_level(level) for level in range(_num_levels(self.capacity))]
        self._undo_log: list[tuple[int, Tensor | slice, State]] | None = None

    @property
    def num_slots(self) -> int:
        """The number of slots, used or not."""
        return self.element.numel()

    @property
    def num_bytes(self) -> int:
        """The memory of all arrays."""
        states = [tensor for level in self.levels for tensor in tensors_of(level)]
        return bytes_of([*states, self.element, self.sizes, self.capacity, self.base])

    def places(self, level: int) -> Int[Tensor, " nodes"]:
        """The places of all nodes of a level that hold elements, set by set."""
        return places_of(self.base, self.sizes, level)

    def read(self, level: int, places: Int[Tensor, " n"]) -> State:
        """The states at these places of a level."""
        return map_state(lambda rows: rows.index_select(0, places), self.levels[level])

    def write(self, level: int, places: Int[Tensor, " n"], states: State) -> None:
        """Put states at these places of a level."""
        self.remember(level, places)
        map_state(lambda rows, new: rows.index_copy_(0, places, new), self.levels[level], states)

    @contextmanager
    def rollback_on_error(self) -> Iterator[None]:
        """Undo all writes inside if an error leaves it; blocks must stay in place."""
        self._undo_log = []
        try:
            yield
        except BaseException:
            for level, places, states in reversed(self._undo_log):
                map_state(_put(places), self.levels[level], states)
            raise
        finally:
            self._undo_log = None

    def remember(self, level: int, places: Tensor | slice) -> None:
        """Save what is at these places before they are written, if writes may be undone."""
        if self._undo_log is not None:
            states = map_state(lambda rows: _copy_of(rows, places), self.levels[level])
            self._undo_log.append((level, places, states))

    def add_sets(self, num_sets: int) -> None:
        """Add sets, empty and with capacity 0."""
        none = self.sizes.new_zeros(num_sets)
        self.sizes, self.capacity, self.base = (
            torch.cat([old, none]) for old in (self.sizes, self.capacity, self.base)
        )

    def reserve(
        self, sets: Int[Tensor, " some"], sizes: Int[Tensor, " some"]
    ) -> Int[Tensor, " moved"]:
        """Let each of `sets` hold `sizes` elements; returns the new slots of those that moved.

        A set that outgrows its block moves to one twice as large, or larger. If it does not
        fit after the others, all of them are packed again. Nothing is folded again.
        """
        outgrown = self.capacity[sets] < sizes
        if not bool(outgrown.any()):
            return sets.new_zeros(0)
        needed = capacity_for(sizes)
        base, used = _packed(needed[outgrown], self.used)
        if used > self.num_slots:
            wanted = torch.minimum(self.capacity, 2 * capacity_for(self.sizes))
            wanted[sets] = torch.maximum(wanted[sets], needed)
            return self.pack(wanted)
        sets, capacity = sets[outgrown], needed[outgrown]
        for level in range(len(self.levels), _num_levels(capacity)):
            self.levels.append(self._new_level(level))
        self._move(sets, base)
        self.base[sets], self.capacity[sets], self.used = base, capacity, used
        return places_of(base, self.sizes[sets], 0)

    def pack(self, capacity: Int[Tensor, " sets"]) -> Int[Tensor, " n"]:
        """Lay out all blocks again, without large gaps; returns the new slots of all elements."""
        base, used = _packed(capacity, 0)
        num_slots = _with_space(used, capacity)
        elements, slots = self.element[self.places(0)], places_of(base, self.sizes, 0)
        self.element = self.element.new_full((num_slots,), -1).index_copy_(0, slots, elements)
        for level in range(_num_levels(capacity)):
            new = self._new_level(level)
            if level < len(self.levels):
                states = self.read(level, self.places(level))
                self.levels[level] = new
                self.write(level, places_of(base, self.sizes, level), states)
            else:
                self.levels.append(new)
        del self.levels[_num_levels(capacity) :]
        self.base, self.capacity, self.used = base, capacity, used
        return slots

    def release(self, needed: int) -> Int[Tensor, " moved"]:
        """Pack if less than a quarter of the slots is `needed`; returns the new slots, if so."""
        if 4 * needed >= self.num_slots:
            return self.sizes.new_zeros(0)
        return self.pack(capacity_for(self.sizes))

    def _move(self, sets: Tensor, base: Tensor) -> None:
        """Copy the trees of some sets to other, free blocks."""
        sizes = self.sizes[sets]
        for level in range(_num_levels(sizes)):
            old = places_of(self.base[sets], sizes, level)
            self.write(level, places_of(base, sizes, level), self.read(level, old))
        elements = self.element[places_of(self.base[sets], sizes, 0)]
        self.element.index_copy_(0, places_of(base, sizes, 0), elements)

    def _new_level(self, level: int) -> State:
        count = self.num_slots >> level
        return map_state(lambda rows: rows.new_empty(count, *rows.shape[1:]), self.like)


class HandleTable:
    """For each element its slot and its set, found by its handle.

    A handle is the number of the element and, in the higher bits, how often this number was in use
    before. So the handle of a removed element is not taken for that of a new one.
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
        """Restore saved generations; numbers without a slot are free."""
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


def placed(table: Tensor, places: Int[Tensor, " n"], values: Tensor) -> Tensor:
    """A table with values at some places; it grows if these are behind its end."""
    needed = int(places.max()) + 1 if places.numel() else 0
    if needed > table.numel():
        missing = max(needed, 2 * table.numel()) - table.numel()
        table = torch.cat([table, table.new_zeros(missing)])
    table[places] = values
    return table


def capacity_for(sizes: Int[Tensor, " sets"]) -> Int[Tensor, " sets"]:
    """The smallest power of two that is not smaller; 0 for empty sets."""
    return torch.where(sizes > 0, 1 << tree_heights(sizes), 0)


def num_nodes(sizes: Int[Tensor, " sets"], level: int) -> Int[Tensor, " sets"]:
    """Count the nodes of a level that hold elements: ceil(n / 2^level), and none above the root."""
    counts = (sizes + (1 << level) - 1) >> level
    return torch.where(tree_heights(sizes) >= level, counts, 0)


def places_of(
    base: Int[Tensor, " sets"], sizes: Int[Tensor, " sets"], level: int
) -> Int[Tensor, " nodes"]:
    """The places of the nodes of a level that hold elements, set by set."""
    counts = num_nodes(sizes, level)
    return torch.repeat_interleave(base >> level, counts) + places_within(counts)


def bytes_of(tensors: Iterable[Tensor]) -> int:
    """The memory that the elements of some tensors take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _copy_of(rows: Tensor, places: Tensor | slice) -> Tensor:
    return rows[places].clone() if isinstance(places, slice) else rows.index_select(0, places)


def _put(places: Tensor | slice) -> Callable[[Tensor, Tensor], Tensor]:
    def put(rows: Tensor, states: Tensor) -> Tensor:
        rows[places] = states
        return rows

    return put


def _packed(capacity: Tensor, start: int) -> tuple[Tensor, int]:
    """A place for each block from `start` on, and where the last one ends.

    The largest come first: then each begins at a multiple of its size.
    """
    if not capacity.numel():
        return capacity.clone(), start
    order = capacity.argsort(descending=True, stable=True)
    sizes = capacity[order]
    largest = max(int(sizes[0]), 1)
    first = -(-start // largest) * largest
    ends = first + sizes.cumsum(0)
    return torch.empty_like(capacity).index_copy_(0, order, ends - sizes), int(ends[-1])


def _with_space(used: int, capacity: Tensor) -> int:
    """Slots to grow into before the next packing, too: the largest block would not fit."""
    largest = int(capacity.max()) if capacity.numel() else 0
    return used + (used - largest) // 2


def _num_levels(sizes: Tensor) -> int:
    return int(tree_heights(sizes).max()) + 1 if sizes.numel() else 1
