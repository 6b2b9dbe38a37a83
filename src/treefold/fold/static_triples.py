"""Nodes of a static fold with their children's children: where associativity can be asked for."""

from typing import NamedTuple, cast

import torch
from torch import Tensor

from treefold.algebra import State, map_state
from treefold.fold.static import StaticFold, StaticPlan, merging_neighbours, state_rows
from treefold.shapes import Bool


class StaticTriples(NamedTuple):
    """Nodes above level 0: both children, the children of these, and which of them are nodes.

    Where a child is a row, or a node is not live, its children are any states.
    """

    left: State
    right: State
    of_left: tuple[State, State]
    of_right: tuple[State, State]
    is_left_node: Bool[Tensor, " nodes"]
    is_right_node: Bool[Tensor, " nodes"]


def static_triples(plan: StaticPlan, fold: StaticFold) -> StaticTriples | None:
    """All such nodes, level after level; None if no group may have more than two rows."""
    first, *others = fold.levels
    if not others:
        return None
    below = [state_rows(part, plan.pair_of) for part in (first.left, first.right)]
    is_node: Tensor = plan.is_pair
    parts = []
    for level in others:
        count = level.is_live.shape[0]
        left_first, right_first = merging_neighbours(below[0], count)
        left_second, right_second = merging_neighbours(below[1], count)
        is_left, is_right = (cast(Tensor, part) for part in merging_neighbours(is_node, count))
        live = level.is_live
        children = (level.left, level.right, left_first, left_second, right_first, right_second)
        parts.append((*children, is_left & live, is_right & live))
        below, is_node = [level.left, level.right], live
    joined = [
        map_state(lambda *each: torch.cat(each), *states) for states in zip(*parts, strict=True)
    ]
    left, right, a, b, c, d = joined[:6]
    masks = cast(Tensor, joined[6]), cast(Tensor, joined[7])
    return StaticTriples(left, right, (a, b), (c, d), *masks)
