"""One path from a changed place to its root, in plain numbers: little of our own per level."""

from typing import cast

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, map_state
from treefold.fold import TreePlan, tree_fold
from treefold.incremental.arena import Arena


def climb_alone(op: Monoid, arena: Arena, level: int, place: int, end: int, height: int) -> None:
    """Fold anew the nodes above one place, up to `height`; slots from `end` on hold no elements.

    An operator that folds trees gets the whole path as one, and is called once.
    """
    if isinstance(arena.like, Tensor) and hasattr(op, "fold_tree"):
        while level < height and place << level >= end:  # what changed is that it is gone
            level, place = _step(op, arena, level, place, end)
        if level < height:
            _climb_at_once(op, arena, level, place, end, height)
        return
    while level < height:
        level, place = _step(op, arena, level, place, end)


def _step(op: Monoid, arena: Arena, level: int, place: int, end: int) -> tuple[int, int]:
    """Fold the parent of a place anew, if it holds elements; returns where that is."""
    below, level, place = arena.levels[level], level + 1, place >> 1
    if place << level < end:
        left, right = 2 * place, 2 * place + 1
        state = _row(below, left)
        if right << (level - 1) < end:
            state = op(state, _row(below, right))
        arena.keep(level, slice(place, place + 1))
        map_state(_copy, _row(arena.levels[level], place), state)
    return level, place


def _climb_at_once(op: Monoid, arena: Arena, level: int, place: int, end: int, height: int) -> None:
    """All nodes above a place that holds elements, in one fold over it and its path's siblings."""
    rows, comes_from_right = [_row(arena.levels[level], place)], []
    parents, num_met = [], []
    while level < height:
        sibling = place ^ 1
        if sibling << level < end:  # else the parent is what is below it
            rows.append(_row(arena.levels[level], sibling))
            comes_from_right.append(bool(place & 1))
        level, place = level + 1, place >> 1
        parents.append(_row(arena.levels[level], place))
        num_met.append(len(comes_from_right))
    path = torch.cat(cast(list[Tensor], rows))
    nodes = tree_fold(op, path, TreePlan.of_path(comes_from_right, path.device)).nodes
    states = torch.cat([path[:1], cast(Tensor, nodes)]).split(1)
    for parent, met in zip(parents, num_met, strict=True):
        cast(Tensor, parent).copy_(states[met])


def _row(states: State, place: int) -> State:
    if isinstance(states, Tensor):  # the usual case, without detours
        return states[place : place + 1]
    return map_state(lambda rows: rows[place : place + 1], states)


def _copy(rows: Tensor, new: Tensor) -> Tensor:
    return rows.copy_(new)
