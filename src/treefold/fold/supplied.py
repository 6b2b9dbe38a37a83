"""A plan made beforehand, of any bracketing, in a form that torch.compile can be given.

A `TreePlan` has as many levels as its tallest tree, and counts of all kinds. Here the number of
levels is rounded up, every level has spare pairs, and what is a count there is a length here. All
lengths are different and two or more: torch makes special cases of lengths 0 and 1, and a graph in
which two lengths are the same is for such batches alone.
"""

from collections.abc import Iterable
from itertools import accumulate, count
from typing import NamedTuple

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, identity_like
from treefold.fold.groups import Groups
from treefold.fold.plan import Level, TreePlan
from treefold.fold.static import (
    StaticFold,
    StaticTrees,
    join_states,
    state_rows,
    state_where,
)
from treefold.shapes import Int

LEVELS_AT_ONCE = 8
"""Numbers of levels are rounded up to a multiple of this: there are few graphs."""


class SuppliedPlan(NamedTuple):
    """A plan as index tensors. Places are those in [leaves, level 0, level 1, ...]."""

    sizes: Int[Tensor, " groups"]
    leaves: Int[Tensor, " n"]
    levels: tuple[tuple[Int[Tensor, " pairs 2"], Int[Tensor, " waiting"]], ...]
    """Pairs and waiting rows of each level, as places in the pool [made, waiting] before it."""
    roots: Int[Tensor, " groups"]
    """Each group's root; any place if it is empty."""
    trees: StaticTrees


def supply(plan: TreePlan, groups: Groups, others: Iterable[SuppliedPlan] = ()) -> SuppliedPlan:
    """Put a plan over these groups into that form; `others` are given at the same time."""
    num_rows, device = plan.num_rows, groups.sizes.device
    taken = {num_rows, plan.num_groups, *(length for each in others for length in _lengths(each))}
    num_missing = -max(len(plan.levels), 1) % LEVELS_AT_ONCE + (not plan.levels)
    none = plan.leaves[:0]
    levels: list[tuple[Tensor, Tensor]] = []
    counts: list[int] = []
    spare: list[int] = []  # pairs at the end of a level that nobody reads: of rows at place 0
    for level in (*plan.levels, *[Level(0, 0, none)] * num_missing):
        num_taken = 2 * level.num_pairs + level.num_waiting
        take = torch.arange(num_taken, device=device) if level.take is None else level.take
        if counts:  # spare nodes are between what was made and what waits
            take = torch.where(take >= counts[-1], take + spare[-1], take)
        pairs, waiting = take.split([2 * level.num_pairs, level.num_waiting])
        counts.append(level.num_pairs)
        spare.append(_num_spare(level.num_pairs, taken))
        longer = _longer(pairs, 2 * spare[-1]).view(-1, 2)
        levels.append((longer, _longer(waiting, _num_spare(level.num_waiting, taken))))

    number = torch.repeat_interleave(torch.tensor(counts, device=device))  # each node's level
    sizes = zip(counts, spare, strict=True)
    is_live = torch.cat([torch.arange(n + more, device=device) < n for n, more in sizes])
    places = torch.arange(num_rows + len(number), device=device)
    before = torch.tensor([0, *accumulate(spare)], device=device)
    places[num_rows:] += before[number]
    children = torch.zeros(len(is_live), 2, dtype=torch.int64, device=device)
    children[is_live] = places[plan.children]
    roots = torch.zeros_like(groups.sizes)
    roots[plan.root_groups] = places[num_rows + plan.root_nodes]
    num_singles = plan.single_groups.numel()
    roots[plan.single_groups] = places[num_rows - num_singles : num_rows]
    trees = StaticTrees(num_rows, children, is_live)
    return SuppliedPlan(groups.sizes, groups.order[plan.leaves], tuple(levels), roots, trees)


def _lengths(plan: SuppliedPlan) -> list[int]:
    """The lengths of all its tensors."""
    tensors = [plan.leaves, plan.sizes, plan.trees.is_live, *sum(plan.levels, ())]
    return [len(each) for each in tensors]


def _num_spare(length: int, taken: set[int]) -> int:
    """The number of spare ones, two or more, that makes a length not taken yet; it is then."""
    found = next(more for more in count(2) if length + more not in taken)
    taken.add(length + found)
    return found


def fold_supplied(op: Monoid, x: State, plan: SuppliedPlan) -> StaticFold:
    """Fold each group of rows of `x`; empty groups give the identity of `op`.

    The states are leaves, then nodes.
    """
    pool = state_rows(x, plan.leaves)
    states = [pool]
    for pairs, waiting in plan.levels:
        states.append(op(state_rows(pool, pairs[:, 0]), state_rows(pool, pairs[:, 1])))
        pool = join_states([states[-1], state_rows(pool, waiting)])
    made = join_states(states)
    roots = state_rows(made, plan.roots)
    return StaticFold(state_where(plan.sizes > 0, roots, identity_like(op, roots)), made)


def _longer(places: Tensor, by: int) -> Tensor:
    return torch.cat([places, places.new_zeros(by)])
