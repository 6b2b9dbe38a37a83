"""Leave one out: the aggregate of a set without one of its elements, for all at once.

From the root down: the fold outside a node is the fold outside its parent, combined with its
sibling. Every node but the root and its children costs one application: 2 n - 4 for n elements.
"""

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, identity_like, map_state, take
from treefold.fold import places_within, tree_heights
from treefold.incremental.tree_storage import TreeStorage, num_nodes


def leave_one_out(op: Monoid, storage: TreeStorage) -> State:
    """The aggregate of each set without one element, `[n, *feature]`, set by set, slot by slot."""
    heights = tree_heights(storage.sizes)
    top = int(heights.max()) if heights.numel() else 0
    outside = map_state(lambda rows: rows[:0], storage.like)
    for level in reversed(range(top)):
        outside = _one_level_down(op, storage, heights, level, outside)
    # Sets of one element have no level below the root: without it, nothing is left of them.
    is_single = torch.repeat_interleave(heights == 0, storage.sizes)
    blank = map_state(lambda rows: rows.new_empty(is_single.numel(), *rows.shape[1:]), storage.like)
    places = (~is_single).nonzero().squeeze(1)
    return map_state(
        lambda empty, rows: empty.index_copy(0, places, rows), identity_like(op, blank), outside
    )


def _one_level_down(
    op: Monoid, storage: TreeStorage, heights: Tensor, level: int, outside: State
) -> State:
    """The fold of all outside each node of `level`, in higher sets, from the level above."""
    higher = (heights > level).nonzero().squeeze(1)
    counts = num_nodes(storage.sizes[higher], level)
    place, owner = places_within(counts), torch.repeat_interleave(counts)
    sibling = (place ^ 1) + (storage.base[higher] >> level)[owner]
    below_root = (heights[higher] == level + 1)[owner]
    # `outside` has the nodes of the level above, of the sets that are higher still, set by set.
    above = torch.where(heights[higher] > level + 1, (counts + 1) // 2, 0)
    parent = (above.cumsum(0) - above)[owner] + place // 2

    has_sibling = (place ^ 1) < counts[owner]
    meets = has_sibling & ~below_root
    alone = ~has_sibling
    out = map_state(lambda rows: rows.new_empty(place.numel(), *rows.shape[1:]), storage.like)
    _put(out, below_root, storage.read(level, sibling[below_root]))
    _put(out, alone, take(outside, parent[alone]))
    if bool(meets.any()):
        _put(out, meets, op(take(outside, parent[meets]), storage.read(level, sibling[meets])))
    return out


def _put(out: State, where: Tensor, states: State) -> None:
    places = where.nonzero().squeeze(1)
    map_state(lambda rows, new: rows.index_copy_(0, places, new), out, states)
