"""An incremental set: the aggregate of elements that come and go, O(log n) applications each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, identity_like, map_state, require_elements
from treefold.checkpoints import Checkpoint
from treefold.fold import Groups, num_rows, places_within, tree_heights
from treefold.incremental.checks import Integers, as_integers, as_sets, rows_like, sets_of_rows
from treefold.incremental.leave_one_out import leave_one_out
from treefold.incremental.saving import load_set, pack_trees, save_set, unpack_trees
from treefold.incremental.stability import BracketingStability, bracketing_stability
from treefold.incremental.tree_storage import HandleTable, TreeStorage, capacity_for
from treefold.incremental.update_path import fold_all, update_paths
from treefold.shapes import Int


class FoldTree:
    """Many sets and their aggregates under `op`, kept up to date while elements come and go.

    Built from rows `[n, *feature]` in one set, or in the sets that `groups` gives. It keeps all
    nodes of the trees: two to four times the memory of the rows, and space to grow. Memory is
    released once three quarters of it are free. Each element has a handle; that of row i is i.

    The tree of a set with n elements is always the one of `plan_tree([n], "carry")` over `rows()`.
    An element that is removed is replaced by the last one of its set, so trees have no holes and
    are ceil(log2 n) high. Replacing or inserting an element costs at most ceil(log2 n)
    applications, removing one twice that; updates given together share the nodes above them.

    For inference: nothing here records gradients. After a change of the operator's parameters, call
    `refold`. Its tensors are where its rows are. If the operator raises an error during an update,
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
        self._storage = TreeStorage(_detached(rows), groups.sizes)
        self._needed = self._storage.used
        slots = self._storage.places(0)
        self._storage.element[slots] = groups.order
        by_row = torch.empty_like(slots).index_copy_(0, groups.order, slots)
        sets = torch.empty_like(slots).index_copy_(0, groups.order, groups.index)
        self._handle_table = HandleTable(by_row, sets)
        with torch.no_grad():
            self._storage.write(0, by_row, _detached(rows))
            fold_all(op, self._storage)

    @property
    def num_sets(self) -> int:
        """The number of sets, empty ones included."""
        return self._storage.sizes.numel()

    @property
    def sizes(self) -> Int[Tensor, " sets"]:
        """The number of elements of each set."""
        return self._storage.sizes.clone()

    @property
    def num_bytes(self) -> int:
        """The memory that states and indices take."""
        return self._storage.num_bytes + self._handle_table.num_bytes

    @torch.no_grad()
    def insert(self, rows: State, sets: Integers | None = None) -> Int[Tensor, " n"]:
        """Add elements to sets, one set for all or one for each; returns their handles.

        Where there are several sets, `sets` must be given.
        """
        rows, storage = rows_like(self._storage.like, rows), self._storage
        sets, order = sets_of_rows(sets, rows, self.num_sets, self._device).sort(stable=True)
        touched, counts = torch.unique_consecutive(sets, return_counts=True)
        old = storage.sizes[touched]
        self._follow(storage.reserve(touched, old + counts))
        starts = storage.base[touched] + old
        slots = torch.repeat_interleave(starts, counts) + places_within(counts)
        slots = torch.empty_like(slots).index_copy_(0, order, slots)
        sets = torch.empty_like(sets).index_copy_(0, order, sets)
        storage.write(0, slots, rows)  # in free slots, which nothing reads
        with self._rollback_on_error(touched):
            self._resize(touched, old + counts)
            update_paths(self.op, storage, slots, sets)
        numbers = self._handle_table.add(slots, sets)
        storage.element[slots] = numbers
        return self._handle_table.handles_of(numbers)

    @torch.no_grad()
    def remove(self, handles: Integers) -> None:
        """Take elements out; the last elements of their sets take their places."""
        numbers = self._numbers(handles)
        slots, order = self._handle_table.slots[numbers].sort()
        sets, storage = self._handle_table.sets[numbers[order]], self._storage
        touched, counts = torch.unique_consecutive(sets, return_counts=True)
        old = storage.sizes[touched]
        # The slots that become empty, as many as are removed; some of their elements stay.
        starts = storage.base[touched] + old - counts
        tail = torch.repeat_interleave(starts, counts) + places_within(counts)
        holes = slots[slots < torch.repeat_interleave(starts, counts)]
        last = tail[~torch.isin(tail, slots)]
        filled = self._handle_table.sets[storage.element[last]]
        with self._rollback_on_error(touched):
            storage.write(0, holes, storage.read(0, last))
            self._resize(touched, old - counts)
            update_paths(self.op, storage, torch.cat([holes, tail]), torch.cat([filled, sets]))
        self._handle_table.remove(numbers)
        storage.element[holes] = storage.element[last]
        self._follow(holes)
        self._follow(storage.release(self._needed))

    @torch.no_grad()
    def replace(self, handles: Integers, rows: State) -> None:
        """Give elements other values; their handles stay."""
        numbers, rows = self._numbers(handles), rows_like(self._storage.like, rows)
        if num_rows(rows) != numbers.numel():
            raise ValueError(
                f"{num_rows(rows)} rows for {numbers.numel()} handles; expected one row each"
            )
        slots = self._handle_table.slots[numbers]
        with self._storage.rollback_on_error():
            self._storage.write(0, slots, rows)
            update_paths(self.op, self._storage, slots, self._handle_table.sets[numbers])

    def add_sets(self, num_sets: int) -> Int[Tensor, " new"]:
        """New, empty sets; returns their numbers."""
        if num_sets < 0:
            raise ValueError(f"{num_sets} new sets; expected 0 or more")
        first = self.num_sets
        self._storage.add_sets(num_sets)
        return torch.arange(first, first + num_sets, device=self._storage.sizes.device)

    @torch.no_grad()
    def value(self, sets: Integers | None = None) -> State:
        """The aggregate of each set, or of those asked for, `[sets, *feature]`.

        Empty ones give the identity.
        """
        storage = self._storage
        base, sizes = storage.base, storage.sizes
        if sets is not None:
            asked = as_sets(sets, self.num_sets, self._device)
            base, sizes = base[asked], sizes[asked]
        heights = torch.where(sizes > 0, tree_heights(sizes), -1)
        blank = map_state(lambda like: like.new_empty(sizes.numel(), *like.shape[1:]), storage.like)
        out = map_state(torch.clone, identity_like(self.op, blank))
        for height in heights.unique().tolist():
            if height >= 0:
                mine = (heights == height).nonzero().squeeze(1)
                roots = storage.read(height, base[mine] >> height)
                map_state(lambda to, rows, at=mine: to.index_copy_(0, at, rows), out, roots)
        return out

    @torch.no_grad()
    def leave_one_out(self) -> State:
        """For each element, in the order of `handles()`, its set's aggregate without it.

        Less than 2 n applications for all n of them, each over what is left of this tree: another
        one than after `remove`. The two agree as far as the operator is associative.
        """
        return leave_one_out(self.op, self._storage)

    def handles(self) -> Int[Tensor, " n"]:
        """The handles of all elements, set by set (see `sizes`), in tree order."""
        return self._handle_table.handles_of(self._storage.element[self._storage.places(0)])

    def sets_of(self, handles: Integers) -> Int[Tensor, " n"]:
        """The set of each element."""
        return self._handle_table.sets[self._numbers(handles)]

    def rows(self) -> State:
        """All elements, in the order of `handles()`."""
        return self._storage.read(0, self._storage.places(0))

    @torch.no_grad()
    def refold(self) -> None:
        """Fold all nodes again: for an operator whose parameters have changed."""
        fold_all(self.op, self._storage)

    def rebuilt(self) -> "FoldTree":
        """The same sets from scratch, over the same trees; row i of `rows()` has handle i."""
        return FoldTree(self.op, self.rows(), Groups.from_sizes(self._storage.sizes))

    def stability(
        self,
        num_bracketings: int = 8,
        generator: torch.Generator | None = None,
        decode: Callable[..., State] | None = None,
    ) -> BracketingStability:
        """Measure how far other merge orders are from `value()`; folds all rows again each time."""
        groups = Groups.from_sizes(self._storage.sizes)
        return bracketing_stability(
            self.op, self.rows(), groups, num_bracketings, generator, decode, reference=self.value()
        )

    def save(self, folder: Path | str) -> None:
        """Write everything but the operator: whole or not at all, with checksums."""
        save_set(folder, "fold-tree", [self.op], *self.packed())

    @classmethod
    def load(
        cls, folder: Path | str, op: Monoid, device: torch.device | str | None = None
    ) -> "FoldTree":
        """Load what was saved, with the same handles; `op` must be the same as then.

        Its tensors are on `device`, or where the operator's identity is.
        """
        return cls.unpacked(op, load_set(folder, "fold-tree", [op], device))

    def packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything but the operator, as tensors by name and plain data."""
        return pack_trees(self._storage, self._handle_table)

    @classmethod
    def unpacked(cls, op: Monoid, saved: Checkpoint) -> "FoldTree":
        """The tree that was packed."""
        tree = cls.__new__(cls)
        tree.op = op
        tree._storage, tree._handle_table = unpack_trees(saved)
        tree._needed = tree._storage.used
        return tree

    def _numbers(self, handles: Integers) -> Tensor:
        return self._handle_table.numbers_of(as_integers(handles, "handles", self._device))

    @property
    def _device(self) -> torch.device:
        return self._storage.sizes.device

    @contextmanager
    def _rollback_on_error(self, sets: Tensor) -> Iterator[None]:
        """If the operator fails inside, nodes and the sizes of `sets` are what they were."""
        before = self._storage.sizes[sets]
        try:
            with self._storage.rollback_on_error():
                yield
        except BaseException:
            self._resize(sets, before)
            raise

    def _resize(self, sets: Tensor, sizes: Tensor) -> None:
        self._needed += int((capacity_for(sizes) - capacity_for(self._storage.sizes[sets])).sum())
        self._storage.sizes[sets] = sizes

    def _follow(self, slots: Tensor) -> None:
        """HandleTable have moved to these slots."""
        self._handle_table.slots[self._storage.element[slots]] = slots


def _detached(rows: State) -> State:
    return map_state(torch.Tensor.detach, rows)
