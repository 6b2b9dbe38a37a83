"""Groups whose sizes nobody reads, as torch.compile, torch.export and fake tensors need them.

An aggregation takes this path by itself under torch.compile and torch.export, and for fake and meta
tensors; inside `static_plans()` it takes it everywhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, identity_like, map_state, tensors_of
from treefold.fold import (
    INTEGER_TYPES,
    MAX_GROUP_SIZE,
    Bracketing,
    Groups,
    StaticFold,
    StaticTrees,
    SuppliedPlan,
    fold_static,
    fold_supplied,
    plan_static,
    plan_tree,
    state_rows,
    supply,
    trees_of,
)
from treefold.operators import is_traced
from treefold.shapes import Int


@dataclass(frozen=True, eq=False)
class StaticGroups:
    """Row `order[i]` belongs to group `index[i]`; no group has more than `max_size` rows."""

    index: Int[Tensor, " n"]
    num_groups: int
    max_size: int
    order: Int[Tensor, " n"] | None = None
    """Rows as they lie, if None."""

    def shuffled(self) -> "StaticGroups":
        """The groups of rows in random order."""
        # torch 2.13's inductor fails on rows at `randperm`.
        order = torch.rand(self.index.shape[0], device=self.index.device).argsort()
        return replace(self, index=self.index.index_select(0, order), order=order)

    def ordered(self, x: State) -> State:
        """Rows in that order."""
        return x if self.order is None else state_rows(x, self.order)


class _Settings:
    """The setting of `static_plans`; a plain object, which torch.compile can read and guard."""

    requested = False
    max_num_elements = MAX_GROUP_SIZE
    supplied: tuple[SuppliedPlan, ...] = ()


_settings = _Settings()


@contextmanager
def static_plans(max_num_elements: int = MAX_GROUP_SIZE) -> Iterator[None]:
    """Inside, plans depend on the numbers of rows and groups alone, in all threads.

    That is the case under torch.compile and torch.export anyway. Elsewhere it avoids waiting for a
    GPU, and lets CUDA graphs, forward-mode AD and `torch.func.vmap` see plain operations.

    `max_num_elements` bounds the size of a group. Every doubling is one more level to compile and
    no more work to do. A larger group is an error on a CPU, and NaN elsewhere.
    """
    if not isinstance(max_num_elements, int) or max_num_elements < 1:
        raise ValueError(
            f"max_num_elements is {max_num_elements!r}; expected the size of the largest group"
        )
    before = (_settings.requested, _settings.max_num_elements)
    _settings.requested, _settings.max_num_elements = True, max_num_elements
    try:
        yield
    finally:
        _settings.requested, _settings.max_num_elements = before


@contextmanager
def supplied_plan(
    index: Tensor,
    dim_size: int,
    bracketing: Bracketing = "random",
    *,
    shuffle: bool = True,
    generator: torch.Generator | None = None,
) -> Iterator[None]:
    """Inside, learned monoids over this many rows and groups use a plan that is made here.

    For what torch.compile cannot do: other bracketings than the balanced one, and generators. Call
    the compiled network inside, with a fresh `supplied_plan` for each batch; inside several of
    them, where it has several sets of groups, such as a layer's and a readout's.
    """
    groups = Groups.from_index(index, dim_size)
    if shuffle:
        groups = groups.shuffled(generator)
    before = _settings.supplied
    made = supply(plan_tree(groups.sizes, bracketing, generator), groups, before)
    _settings.supplied = (made, *before)
    try:
        yield
    finally:
        _settings.supplied = before


def supplied_for(groups: StaticGroups) -> SuppliedPlan | None:
    """The innermost plan made outside for as many rows and groups as there are, if any."""
    for plan in _settings.supplied:
        has_rows = plan.leaves.shape[0] == groups.index.shape[0]
        if has_rows and plan.sizes.shape[0] == groups.num_groups:
            return plan
    return None


def is_static(x: Tensor) -> bool:
    """True where sizes of groups cannot, or are not to, be read."""
    return is_traced(x) or _settings.requested


def static_groups(
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    num_rows: int,
    max_num_elements: int | None,
    like: Tensor,
) -> StaticGroups:
    """Groups from PyG's words."""
    max_size = _settings.max_num_elements if max_num_elements is None else max_num_elements
    if index is None and ptr is None:
        zeros = torch.zeros(num_rows, dtype=torch.int64, device=like.device)
        return StaticGroups(zeros, 1 if dim_size is None else dim_size, max_size)
    if index is None:
        assert ptr is not None
        num_groups = ptr.shape[0] - 1
        if dim_size is not None and dim_size != num_groups:
            raise ValueError(
                f"dim_size is {dim_size}, but ptr describes {num_groups} groups; leave dim_size out"
            )
        numbers = torch.arange(num_groups, device=ptr.device)
        index = numbers.repeat_interleave(ptr.long().diff(), output_size=num_rows)
        return StaticGroups(index, num_groups, max_size)
    if index.dim() != 1 or index.dtype not in INTEGER_TYPES or index.shape[0] != num_rows:
        raise ValueError(
            f"index is {index.dtype} of shape {tuple(index.shape)}; expected {num_rows} integers "
            "in one dimension, the group of each row"
        )
    if ptr is not None:
        dim_size = ptr.shape[0] - 1
    if dim_size is None and not is_traced(like):
        dim_size = int(index.max()) + 1 if num_rows else 0
    if dim_size is None:
        raise ValueError(
            "dim_size is missing; under torch.compile and torch.export it cannot be read off "
            "index: give it, such as dim_size=x.shape[0] for messages to nodes"
        )
    return StaticGroups(index.long(), dim_size, max_size)


def reduce_static(op: Monoid, x: State, groups: StaticGroups) -> State:
    """Fold each group of rows of `x`, of which there may be none."""
    if tensors_of(x)[0].shape[0] == 0:
        nothing = map_state(lambda rows: rows.new_empty(groups.num_groups, *rows.shape[1:]), x)
        return identity_like(op, nothing)
    if (opaque := _fold_opaque(op, x, groups, keep_states=False)) is not None:
        return opaque[0].groups
    plan = plan_static(groups.index, groups.num_groups, groups.max_size)
    if hasattr(op, "reduce_static"):
        found: State = op.reduce_static(groups.ordered(x), plan)
        return found
    return fold_static(op, groups.ordered(x), plan).groups


def fold_with_trees(op: Monoid, x: State, groups: StaticGroups) -> tuple[StaticFold, StaticTrees]:
    """Fold each group of rows of `x`, by the plan made outside if there is one."""
    supplied = supplied_for(groups)
    if supplied is not None:  # torch.compile would guard on a number, and not on a length
        trees = supplied.trees._replace(num_rows=supplied.leaves.shape[0])
        return fold_supplied(op, x, supplied), trees
    if (opaque := _fold_opaque(op, x, groups, keep_states=True)) is not None:
        return opaque
    plan = plan_static(groups.index, groups.num_groups, groups.max_size)
    return fold_static(op, groups.ordered(x), plan), trees_of(plan, groups.index.shape[0])


def _fold_opaque(
    op: Monoid, x: State, groups: StaticGroups, keep_states: bool
) -> tuple[StaticFold, StaticTrees] | None:
    """The fold of an operator that has one of its own, where it can be used."""
    if not hasattr(op, "fold_opaque"):
        return None
    who = (groups.index, groups.order, groups.num_groups, groups.max_size)
    found: tuple[StaticFold, StaticTrees] | None = op.fold_opaque(x, *who, keep_states)
    return found
