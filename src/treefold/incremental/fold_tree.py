"""A living set: the aggregate of elements that come and go, at O(log n) applications each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, identity_like, map_state, require_elements
from treefold.checkpoints import Checkpoint
from treefold.fold import Groups, num_rows, places_within, tree_heights
from treefold.incremental.tree_storage import Arena, room_for
from treefold.incremental.checks import Integers, as_integers, as_sets, rows_like, sets_of_rows
from treefold.incremental.update_path import climb, fold_all
from treefold.incremental.tree_storage import Elements
from treefold.incremental.leave_one_out import leave_one_out
from treefold.incremental.saving import load_living, pack_trees, save_living, unpack_trees
from treefold.incremental.stability import BracketingSpread, bracketing_spread
from treefold.shapes import Int


class FoldTree:
    """Many sets and their aggregates under `op`, kept up to date while elements come and go.

    Built from rows `[n, *feature]` in one set, or in the sets that `groups` says. It keeps all
    nodes of the trees: two to four times the memory of the rows, and room to grow; what removals
    leave is given back once three quarters are free. Each element has a handle; that of row i is i.

    The tree of a set with n elements is always the one of `plan_tree([n], "carry")` over `rows()`.
    An element that is removed is replaced by the last one of its set, so trees have no holes and
    are ceil(log2 n) high. Replacing or inserting an element costs at most ceil(log2 n)
    applications, removing one twice that; updates given together share the nodes above them.

    For inference: nothing here records gradients. After a change of the operator's parameters,
    call `refold`. It lives where its rows are. If the operator raises an error during an update,
    nothing has changed.
    """

    def __init__(self, op: Monoid, rows: State, groups: Groups | None = None) -> None:
        groups = groups or Groups.from_sizes([num_rows(rows)])
        if groups.order.numel() != num_rows(rows):
            raise ValueError(
                f"groups have {groups.order.numel()} rows, but there are {num_rows(rows)}; "
                "give exactly the rows that belong to a set"
            )
        require_elements(op, rows)
        self.op = op
        self._arena = Arena(_detached(rows), groups.sizes)
        self._needed = self._arena.used
        slots = self._arena.places(0)
        self._arena.element[slots] = groups.order
        by_row = torch.empty_like(slots).index_copy_(0, groups.order, slots)
        sets = torch.empty_like(slots).index_copy_(0, groups.order, groups.index)
        self._elements = Elements(by_row, sets)
        with torch.no_grad():
            self._arena.write(0, by_row, _detached(rows))
            fold_all(op, self._arena)

    @property
    def num_sets(self) -> int:
        """How many sets there are, empty ones included."""
        return self._arena.sizes.numel()

    @property
    def sizes(self) -> Int[Tensor, " sets"]:
        """How many elements each set has."""
        return self._arena.sizes.clone()

    @property
    def num_bytes(self) -> int:
        """The memory that states and indices take."""
        return self._arena.num_bytes + self._elements.num_bytes

    @torch.no_grad()
    def insert(self, rows: State, sets: Integers | None = None) -> Int[Tensor, " n"]:
        """Add elements to sets, one set for all or one for each; returns their handles.

        Where there are several sets, `sets` must be given.
        """
        rows, arena = rows_like(self._arena.like, rows), self._arena
        sets, order = sets_of_rows(sets, rows, self.num_sets, self._device).sort(stable=True)
        touched, counts = torch.unique_consecutive(sets, return_counts=True)
        old = arena.sizes[touched]
        self._follow(arena.make_room(touched, old + counts))
        starts = arena.base[touched] + old
        slots = torch.repeat_interleave(starts, counts) + places_within(counts)
        slots = torch.empty_like(slots).index_copy_(0, order, slots)
        sets = torch.empty_like(sets).index_copy_(0, order, sets)
        arena.write(0, slots, rows)  # in free slots, where nobody looks
        with self._undone_on_error(touched):
            self._resize(touched, old + counts)
            climb(self.op, arena, slots, sets)
        numbers = self._elements.add(slots, sets)
        arena.element[slots] = numbers
        return self._elements.handles_of(numbers)

    @torch.no_grad()
    def remove(self, handles: Integers) -> None:
        """Take elements out; the last elements of their sets take their places."""
        numbers = self._numbers(handles)
        slots, order = self._elements.slots[numbers].sort()
        sets, arena = self._elements.sets[numbers[order]], self._arena
        touched, counts = torch.unique_consecutive(sets, return_counts=True)
        old = arena.sizes[touched]
        # The slots that become empty, as many as are removed; some of their elements stay.
        starts = arena.base[touched] + old - counts
        tail = torch.repeat_interleave(starts, counts) + places_within(counts)
        holes = slots[slots < torch.repeat_interleave(starts, counts)]
        last = tail[~torch.isin(tail, slots)]
        filled = self._elements.sets[arena.element[last]]
        with self._undone_on_error(touched):
            arena.write(0, holes, arena.read(0, last))
            self._resize(touched, old - counts)
            climb(self.op, arena, torch.cat([holes, tail]), torch.cat([filled, sets]))
        self._elements.remove(numbers)
        arena.element[holes] = arena.element[last]
        self._follow(holes)
        self._follow(arena.release(self._needed))

    @torch.no_grad()
    def replace(self, handles: Integers, rows: State) -> None:
        """Give elements other values; their handles stay."""
        numbers, rows = self._numbers(handles), rows_like(self._arena.like, rows)
        if num_rows(rows) != numbers.numel():
            raise ValueError(
                f"{num_rows(rows)} rows for {numbers.numel()} handles; expected one row each"
            )
        slots = self._elements.slots[numbers]
        with self._arena.undone_on_error():
            self._arena.write(0, slots, rows)
            climb(self.op, self._arena, slots, self._elements.sets[numbers])

    def add_sets(self, num_sets: int) -> Int[Tensor, " new"]:
        """New, empty sets; returns their numbers."""
        if num_sets < 0:
            raise ValueError(f"{num_sets} new sets; expected 0 or more")
        first = self.num_sets
        self._arena.add_sets(num_sets)
        return torch.arange(first, first + num_sets, device=self._arena.sizes.device)

    @torch.no_grad()
    def value(self, sets: Integers | None = None) -> State:
        """The aggregate of each set, or of those asked for, `[sets, *feature]`.

        Empty ones give the identity.
        """
        arena = self._arena
        base, sizes = arena.base, arena.sizes
        if sets is not None:
            asked = as_sets(sets, self.num_sets, self._device)
            base, sizes = base[asked], sizes[asked]
        heights = torch.where(sizes > 0, tree_heights(sizes), -1)
        blank = map_state(lambda like: like.new_empty(sizes.numel(), *like.shape[1:]), arena.like)
        out = map_state(torch.clone, identity_like(self.op, blank))
        for height in heights.unique().tolist():
            if height >= 0:
                mine = (heights == height).nonzero().squeeze(1)
                roots = arena.read(height, base[mine] >> height)
                map_state(lambda to, rows, at=mine: to.index_copy_(0, at, rows), out, roots)
        return out

    @torch.no_grad()
    def leave_one_out(self) -> State:
        """For each element, in the order of `handles()`, its set's aggregate without it.

        Less than 2 n applications for all n of them, each over what is left of this tree: another
        one than after `remove`, so that the two agree as far as the operator is associative.
        """
        return leave_one_out(self.op, self._arena)

    def handles(self) -> Int[Tensor, " n"]:
        """The handles of all elements, set by set (`sizes` says how many), in tree order."""
        return self._elements.handles_of(self._arena.element[self._arena.places(0)])

    def rows(self) -> State:
        """All elements, in the order of `handles()`."""
        return self._arena.read(0, self._arena.places(0))

    @torch.no_grad()
    def refold(self) -> None:
        """Fold all nodes again: for an operator whose parameters have changed."""
        fold_all(self.op, self._arena)

    def rebuilt(self) -> "FoldTree":
        """The same sets from scratch, over the same trees; row i of `rows()` has handle i."""
        return FoldTree(self.op, self.rows(), Groups.from_sizes(self._arena.sizes))

    def spread(
        self,
        num_bracketings: int = 8,
        generator: torch.Generator | None = None,
        decode: Callable[..., State] | None = None,
    ) -> BracketingSpread:
        """How far other merge orders would be from `value()`; folds everything so many times."""
        groups = Groups.from_sizes(self._arena.sizes)
        return bracketing_spread(
            self.op, self.rows(), groups, num_bracketings, generator, decode, reference=self.value()
        )

    def save(self, folder: Path | str) -> None:
        """Write everything but the operator: whole or not at all, with checksums."""
        save_living(folder, "fold-tree", [self.op], *self.packed())

    @classmethod
    def load(
        cls, folder: Path | str, op: Monoid, device: torch.device | str | None = None
    ) -> "FoldTree":
        """What was saved, with the same handles; `op` must be what it was.

        It lives on `device`, or where the operator's identity is.
        """
        return cls.unpacked(op, load_living(folder, "fold-tree", [op], device))

    def packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything but the operator, as tensors by name and plain data."""
        return pack_trees(self._arena, self._elements)

    @classmethod
    def unpacked(cls, op: Monoid, saved: Checkpoint) -> "FoldTree":
        """The tree that was packed."""
        tree = cls.__new__(cls)
        tree.op = op
        tree._arena, tree._elements = unpack_trees(saved)
        tree._needed = tree._arena.used
        return tree

    def _numbers(self, handles: Integers) -> Tensor:
        return self._elements.numbers_of(as_integers(handles, "handles", self._device))

    @property
    def _device(self) -> torch.device:
        return self._arena.sizes.device

    @contextmanager
    def _undone_on_error(self, sets: Tensor) -> Iterator[None]:
        """If the operator fails inside, nodes and the sizes of `sets` are what they were."""
        before = self._arena.sizes[sets]
        try:
            with self._arena.undone_on_error():
                yield
        except BaseException:
            self._resize(sets, before)
            raise

    def _resize(self, sets: Tensor, sizes: Tensor) -> None:
        self._needed += int((room_for(sizes) - room_for(self._arena.sizes[sets])).sum())
        self._arena.sizes[sets] = sizes

    def _follow(self, slots: Tensor) -> None:
        """Elements have moved to these slots."""
        self._elements.slots[self._arena.element[slots]] = slots


def _detached(rows: State) -> State:
    return map_state(torch.Tensor.detach, rows)
