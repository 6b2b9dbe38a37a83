"""Path updates: fold the nodes above changed leaves, each once, all sets together, by level."""

from typing import cast

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, map_state
from treefold.fold import TreePlan, tree_fold, tree_heights
from treefold.incremental.tree_storage import TreeStorage, num_nodes
from treefold.shapes import Int

MAX_PAIRS = 1 << 16
"""Pairs in one call of the operator, to bound its memory."""


def update_paths(
    op: Monoid, storage: TreeStorage, slots: Int[Tensor, " n"], sets: Int[Tensor, " n"]
) -> None:
    """Fold again every node above `slots`, which belong to `sets`.

    At most ceil(log2 n) applications per slot; slots that share ancestors share them here too.
    """
    sizes = storage.sizes[sets]
    ends, heights = storage.base[sets] + sizes, tree_heights(sizes)
    if slots.numel() > 1:
        order = slots.argsort()
        slots, ends, heights = slots[order], ends[order], heights[order]
    places, level = slots, 0
    while places.numel() > 1:
        level += 1
        places = places >> 1
        keep = heights >= level  # others are at their roots
        keep[1:] &= places[1:] != places[:-1]  # neighbours have met
        places, ends, heights = places[keep], ends[keep], heights[keep]
        _fold_places(op, storage, level, places, ends)
    if places.numel() == 1:
        update_one_path(op, storage, level, int(places), int(ends), int(heights))


def _fold_places(
    op: Monoid, storage: TreeStorage, level: int, places: Tensor, ends: Tensor
) -> None:
    """The nodes at `places` of `level`, from their children; beyond the ends there are none."""
    is_pair = (2 * places + 1) << (level - 1) < ends
    all_pairs = bool(is_pair.all())
    pairs = places if all_pairs else places[is_pair]
    for some in pairs.split(MAX_PAIRS) if pairs.numel() else ():
        left, right = storage.read(level - 1, 2 * some), storage.read(level - 1, 2 * some + 1)
        storage.write(level, some, op(left, right))
    if not all_pairs:
        alone = places[~is_pair & (places << level < ends)]
        storage.write(level, alone, storage.read(level - 1, 2 * alone))


def fold_all(op: Monoid, storage: TreeStorage) -> None:
    """Fold every node of every set, level by level: n - 1 applications for a set of n."""
    ends = storage.base + storage.sizes
    for level in range(1, len(storage.levels)):
        counts = num_nodes(storage.sizes, level)
        _fold_places(
            op, storage, level, storage.places(level), torch.repeat_interleave(ends, counts)
        )


def update_one_path(
    op: Monoid, storage: TreeStorage, level: int, place: int, end: int, height: int
) -> None:
    """Fold again the nodes above one place, up to `height`; slots from `end` on hold no elements.

    In plain numbers, with little overhead per level. An operator with `fold_tree` gets the whole
    path as one tree, and is called once.
    """
    if isinstance(storage.like, Tensor) and hasattr(op, "fold_tree"):
        while level < height and place << level >= end:  # what changed is that it is gone
            level, place = _step(op, storage, level, place, end)
        if level < height:
            _update_in_one_fold(op, storage, level, place, end, height)
        return
    while level < height:
        level, place = _step(op, storage, level, place, end)


def _step(op: Monoid, storage: TreeStorage, level: int, place: int, end: int) -> tuple[int, int]:
    """Fold the parent of a place again, if it holds elements; returns where that is."""
    below, level, place = storage.levels[level], level + 1, place >> 1
    if place << level < end:
        left, right = 2 * place, 2 * place + 1
        state = _row(below, left)
        if right << (level - 1) < end:
            state = op(state, _row(below, right))
        storage.remember(level, slice(place, place + 1))
        map_state(_copy, _row(storage.levels[level], place), state)
    return level, place


def _update_in_one_fold(
    op: Monoid, storage: TreeStorage, level: int, place: int, end: int, height: int
) -> None:
    """All nodes above a place that holds elements, in one fold over it and its path's siblings."""
    rows, comes_from_right = [_row(storage.levels[level], place)], []
    parents, num_met = [], []
    while level < height:
        sibling = place ^ 1
        if sibling << level < end:  # else the parent is what is below it
            rows.append(_row(storage.levels[level], sibling))
            comes_from_right.append(bool(place & 1))
        level, place = level + 1, place >> 1
        parents.append(_row(storage.levels[level], place))
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
