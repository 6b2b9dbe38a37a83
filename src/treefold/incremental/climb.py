"""From changed leaves to the roots: every node above them once, all sets at once, by level."""

import torch
from torch import Tensor

from treefold.algebra import Monoid
from treefold.fold import tree_heights
from treefold.incremental.arena import Arena, num_nodes
from treefold.incremental.path import climb_alone
from treefold.shapes import Int

MAX_PAIRS = 1 << 16
"""Pairs in one call of the operator, so that its memory does not grow with the sets."""


def climb(op: Monoid, arena: Arena, slots: Int[Tensor, " n"], sets: Int[Tensor, " n"]) -> None:
    """Fold anew every node above `slots`, which belong to `sets`.

    At most ceil(log2 n) applications per slot; slots that share ancestors share them here too.
    """
    sizes = arena.sizes[sets]
    ends, heights = arena.base[sets] + sizes, tree_heights(sizes)
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
        _fold_places(op, arena, level, places, ends)
    if places.numel() == 1:
        climb_alone(op, arena, level, int(places), int(ends), int(heights))


def _fold_places(op: Monoid, arena: Arena, level: int, places: Tensor, ends: Tensor) -> None:
    """The nodes at `places` of `level`, from their children; beyond the ends there are none."""
    is_pair = (2 * places + 1) << (level - 1) < ends
    all_pairs = bool(is_pair.all())
    pairs = places if all_pairs else places[is_pair]
    for some in pairs.split(MAX_PAIRS) if pairs.numel() else ():
        left, right = arena.read(level - 1, 2 * some), arena.read(level - 1, 2 * some + 1)
        arena.write(level, some, op(left, right))
    if not all_pairs:
        alone = places[~is_pair & (places << level < ends)]
        arena.write(level, alone, arena.read(level - 1, 2 * alone))


def fold_all(op: Monoid, arena: Arena) -> None:
    """Fold every node of every set, level by level: n - 1 applications for a set of n."""
    ends = arena.base + arena.sizes
    for level in range(1, len(arena.levels)):
        counts = num_nodes(arena.sizes, level)
        _fold_places(op, arena, level, arena.places(level), torch.repeat_interleave(ends, counts))
