"""The balanced bracketing: one ragged level, then perfect ones that need no copying.

A complete binary tree over n leaves has height D = ceil(log2 n) and all leaves at depth D or D - 1.
So the first level merges n - 2^(D-1) neighbouring pairs, spread evenly, and lets the others pass:

    n = 6, D = 3    a (b c) d (e f)     four slots, two of them pairs
                     \\  /    \\  /
                      (.      .)        from here on, perfect

Now every group holds a power of two. With the tallest groups first, the rows still alive at each
level are a prefix of what the last level made, and partners are neighbours.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from treefold.fold.plan import Level, TreePlan
from treefold.shapes import Int


class Parts(NamedTuple):
    """The trees that parts belong to: a part of height h > 0 has 2^(h-1) slots.

    These are the slots from `first_slots` on, of the 2^shift slots of the tree over `totals` rows.
    """

    totals: Int[Tensor, " parts"]
    shifts: Int[Tensor, " parts"]
    first_slots: Int[Tensor, " parts"]


def plan_balanced(sizes: Int[Tensor, " groups"]) -> TreePlan:
    """Minimal trees: ceil(log2 n) levels, leaves of a group at two adjacent depths."""
    return plan_within(sizes, tree_heights(sizes))


def plan_within(
    sizes: Int[Tensor, " parts"],
    heights: Int[Tensor, " parts"],
    parts: Parts | None = None,
) -> TreePlan:
    """Plan parts of balanced trees, each a tree of its own: the same meetings as in the whole.

    Parts of height 0 are one row or none. Without `parts`, all are whole trees.
    """
    starts = sizes.cumsum(0) - sizes
    kind = heights + (sizes > 0)  # empty, one row, height 1, height 2, ...
    num_empty, *num_of_height = _padded(torch.bincount(kind).tolist())  # the one synchronisation
    in_order = kind.argsort(descending=True, stable=True)
    tall, singles, _ = in_order.split([sum(num_of_height[1:]), num_of_height[0], num_empty])

    # index_select and masked_select take a third to two thirds of the time of brackets.
    total, start = sizes.index_select(0, tall), starts.index_select(0, tall)
    shift = heights.index_select(0, tall) - 1
    slots = 1 << shift
    before = slots - slots.cumsum(0)  # what a slot's number in its tree has more than that in all
    if parts is not None:
        total, shift, first_slot = (each.index_select(0, tall) for each in parts)
        start = start - ((first_slot * total) >> shift)
        before = before + first_slot
    # Slot j of s holds the rows from floor(j n / s) to floor((j + 1) n / s): one or two of them.
    base = torch.addcmul(start << shift, before, total)
    tree = torch.repeat_interleave(slots)
    base, total, shift = (each.index_select(0, tree) for each in (base, total, shift))
    scaled = torch.addcmul(base, torch.arange(len(tree), device=tree.device), total)
    first = scaled >> shift
    is_pair = ((scaled + total) >> shift) - first == 2

    pairs, passing = first.masked_select(is_pair), first.masked_select(~is_pair)
    neighbours = torch.stack([pairs, pairs + 1], 1).flatten()
    leaves = torch.cat([neighbours, passing, starts.index_select(0, singles)])

    num_pairs = _pairs_per_level(num_of_height, pairs.numel())
    return TreePlan(
        num_rows=leaves.numel(),
        num_groups=sizes.numel(),
        leaves=leaves,
        levels=tuple(
            Level(
                num_pairs=count,
                num_waiting=passing.numel() if number == 0 else 0,
                take=_slots_in_order(is_pair)[: 2 * count]
                if number == 1 and passing.numel()
                else None,
            )
            for number, count in enumerate(num_pairs)
        ),
        single_groups=singles,
        root_groups=tall,
        root_nodes=_root_nodes(num_of_height, num_pairs, sizes.device),
    )


def tree_heights(sizes: Int[Tensor, " groups"]) -> Int[Tensor, " groups"]:
    """ceil(log2 n) of each size, exactly; 0 for empty groups."""
    # The place of n among the powers of two; logarithms would need float64, which MPS has not.
    return torch.bucketize(sizes, 1 << torch.arange(63, device=sizes.device))


def _padded(counts: list[int]) -> list[int]:
    """Counts of empty groups and of groups of one row at least, be there any or not."""
    return counts + [0] * (2 - len(counts))


def _pairs_per_level(num_of_height: list[int], first: int) -> list[int]:
    top = len(num_of_height) - 1
    perfect = [
        sum(num_of_height[height] << (height - 1 - level) for height in range(level + 1, top + 1))
        for level in range(1, top)
    ]
    return [first, *perfect] if top > 0 else []


def _slots_in_order(is_pair: Tensor) -> Tensor:
    """The place of each slot's row in the pool of [merged pairs, passing rows]."""
    merged = is_pair.cumsum(0)
    passed = torch.arange(is_pair.numel(), device=is_pair.device) - merged
    return torch.where(is_pair, merged - 1, merged[-1] + passed)


def _root_nodes(num_of_height: list[int], num_pairs: list[int], device: torch.device) -> Tensor:
    """Groups of height D end at level D - 1, behind all taller groups' rows."""
    roots, end = [], 0
    for number, count in zip(num_of_height[1:], num_pairs, strict=True):
        end += count
        roots.append(torch.arange(end - number, end, device=device))
    return torch.cat(roots[::-1]) if roots else torch.zeros(0, dtype=torch.int64, device=device)
