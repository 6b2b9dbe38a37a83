"""A plan made beforehand, of any bracketing, in a form that torch.compile can be given.

A `TreePlan` has as many levels as its tallest tree, and counts of all kinds. Here the number of
levels is rounded up, every level has spare pairs, and what is a count there is a length here, two
or more: torch makes special cases of lengths 0 and 1.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, identity_like, map_state
from treefold.fold.groups import Groups
from treefold.fold.plan import TreePlan
from treefold.fold.static import StaticFold, StaticLevel, state_rows, state_where
from treefold.fold.static_triples import StaticTriples
from treefold.shapes import Bool, Int

SPARE = 2
"""Pairs at the end of every level that nobody reads: of rows at place 0."""
LEVELS_AT_ONCE = 8
"""Numbers of levels are rounded up to a multiple of this, so that there are few graphs."""


class SuppliedPlan(NamedTuple):
    """Who meets whom, as index tensors. Places are those in [leaves, level 0, level 1, ...]."""

    sizes: Int[Tensor, " groups"]
    leaves: Int[Tensor, " n"]
    levels: tuple[tuple[Int[Tensor, " pairs 2"], Int[Tensor, " waiting"]], ...]
    """Pairs and waiting rows of each level, as places in the pool [made, waiting] before it."""
    children: Int[Tensor, " nodes 2"]
    is_live: Bool[Tensor, " nodes"]
    roots: Int[Tensor, " groups"]
    """Each group's root; any place if it is empty."""


def supply(plan: TreePlan, groups: Groups) -> SuppliedPlan:
    """Put a plan over these groups into that form."""
    device = groups.sizes.device
    num_levels = -(-max(plan.depth, 1) // LEVELS_AT_ONCE) * LEVELS_AT_ONCE
    levels: list[tuple[Tensor, Tensor]] = []
    counts: list[int] = []
    before = 0
    for level in plan.levels:
        num_rows = 2 * level.num_pairs + level.num_waiting
        take = torch.arange(num_rows, device=device) if level.take is None else level.take
        # The pool has spare nodes between what was made and what waits.
        take = torch.where(take >= before, take + SPARE, take) if counts else take
        pairs, waiting = take.split([2 * level.num_pairs, level.num_waiting])
        levels.append((_longer(pairs, 2 * SPARE).view(-1, 2), _longer(waiting, SPARE)))
        before = level.num_pairs
        counts.append(before)
    nothing = torch.zeros(0, dtype=torch.int64, device=device)
    for _ in range(num_levels - len(levels)):
        levels.append((_longer(nothing, 2 * SPARE).view(-1, 2), _longer(nothing, SPARE)))
        counts.append(0)

    each = torch.tensor(counts, device=device)
    number = torch.repeat_interleave(each)  # the level of each node
    is_live = torch.cat([torch.arange(n + SPARE, device=device) < n for n in counts])
    places = torch.cat(
        [
            torch.arange(plan.num_rows, device=device),
            plan.num_rows + torch.arange(len(number), device=device) + SPARE * number,
        ]
    )
    children = torch.zeros(len(is_live), 2, dtype=torch.int64, device=device)
    children[is_live] = places[plan.children]
    roots = torch.zeros_like(groups.sizes)
    roots[plan.root_groups] = places[plan.num_rows + plan.root_nodes]
    singles = torch.arange(plan.num_rows - plan.num_singles, plan.num_rows, device=device)
    roots[plan.single_groups] = singles
    leaves = groups.order[plan.leaves]
    return SuppliedPlan(groups.sizes, leaves, tuple(levels), children, is_live, roots)


def fold_supplied(op: Monoid, x: State, plan: SuppliedPlan) -> StaticFold:
    """Fold each group of rows of `x`; empty groups give the identity of `op`."""
    pool = leaves = state_rows(x, plan.leaves)
    made = []
    for pairs, waiting in plan.levels:
        made.append(op(state_rows(pool, pairs[:, 0]), state_rows(pool, pairs[:, 1])))
        pool = _cat([made[-1], state_rows(pool, waiting)])
    nodes = _cat(made)
    states = _cat([leaves, nodes])
    left, right = (state_rows(states, plan.children[:, side]) for side in (0, 1))
    roots = state_rows(states, plan.roots)
    groups = state_where(plan.sizes > 0, roots, identity_like(op, roots))
    return StaticFold(groups, [StaticLevel(left, right, nodes, plan.is_live)])


def supplied_triples(plan: SuppliedPlan, fold: StaticFold) -> StaticTriples:
    """All nodes with their children's children."""
    first = plan.leaves.shape[0]
    (level,) = fold.levels
    is_node = (plan.children >= first) & plan.is_live.unsqueeze(1)
    below = (plan.children - first).clamp(min=0)
    of_left, of_right = (
        (state_rows(level.left, below[:, side]), state_rows(level.right, below[:, side]))
        for side in (0, 1)
    )
    masks = is_node[:, 0], is_node[:, 1]
    return StaticTriples(level.left, level.right, of_left, of_right, *masks)


def _longer(places: Tensor, by: int) -> Tensor:
    return torch.cat([places, places.new_zeros(by)])


def _cat(states: list[State]) -> State:
    return map_state(lambda *parts: torch.cat(parts), *states)
