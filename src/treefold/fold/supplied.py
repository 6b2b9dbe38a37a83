"""A plan made beforehand, of any bracketing, in a form that torch.compile can be given.

A `TreePlan` has as many levels as its tallest tree, and counts of all kinds. Here the number of
levels is rounded up, every level has spare pairs, and what is a count there is a length here, two
or more: torch makes special cases of lengths 0 and 1.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, identity_like
from treefold.fold.groups import Groups
from treefold.fold.plan import TreePlan
from treefold.fold.static import (
    StaticFold,
    StaticTrees,
    join_states,
    state_rows,
    state_where,
)
from treefold.shapes import Int

SPARE = 2
"""Pairs at the end of every level that nobody reads: of rows at place 0."""
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


def supply(plan: TreePlan, groups: Groups) -> SuppliedPlan:
    """Put a plan over these groups into that form."""
    num_rows, device = plan.num_rows, groups.sizes.device
    levels: list[tuple[Tensor, Tensor]] = []
    counts: list[int] = []
    for level in plan.levels:
        num_taken = 2 * level.num_pairs + level.num_waiting
        take = torch.arange(num_taken, device=device) if level.take is None else level.take
        if counts:  # spare nodes are between what was made and what waits
            take = torch.where(take >= counts[-1], take + SPARE, take)
        pairs, waiting = take.split([2 * level.num_pairs, level.num_waiting])
        levels.append((_longer(pairs, 2 * SPARE).view(-1, 2), _longer(waiting, SPARE)))
        counts.append(level.num_pairs)
    num_missing = -max(len(levels), 1) % LEVELS_AT_ONCE + (not levels)
    for _ in range(num_missing):
        none = plan.leaves[:0]
        levels.append((_longer(none, 2 * SPARE).view(-1, 2), _longer(none, SPARE)))
    counts += [0] * num_missing

    number = torch.repeat_interleave(torch.tensor(counts, device=device))  # each node's level
    is_live = torch.cat([torch.arange(n + SPARE, device=device) < n for n in counts])
    places = torch.arange(num_rows + len(number), device=device)
    places[num_rows:] += SPARE * number
    children = torch.zeros(len(is_live), 2, dtype=torch.int64, device=device)
    children[is_live] = places[plan.children]
    roots = torch.zeros_like(groups.sizes)
    roots[plan.root_groups] = places[num_rows + plan.root_nodes]
    num_singles = plan.single_groups.numel()
    roots[plan.single_groups] = places[num_rows - num_singles : num_rows]
    trees = StaticTrees(num_rows, children, is_live)
    return SuppliedPlan(groups.sizes, groups.order[plan.leaves], tuple(levels), roots, trees)


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
