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
    """Parts of trees: one of height h > 0 has 2^(h-1) slots, one of height 0 is a row or nothing.

    The slots are those from `first_slots` on, of the 2^shift slots of the tree over `totals` rows.
    """

    heights: Int[Tensor, " parts"]
    totals: Int[Tensor, " parts"]
    shifts: Int[Tensor, " parts"]
    first_slots: Int[Tensor, " parts"]


def plan_balanced(sizes: Int[Tensor, " groups"], parts: Parts | None = None) -> TreePlan:
    """Minimal trees: ceil(log2 n) levels, leaves of a group at two adjacent depths.

    With `parts`, each group is a part of a balanced tree, and meets as it does in the whole.
    """
    if parts is None:  # 0 for no row, 1 for one, 2 for height 1, ...: the bits of 2 n - 1
        kind = torch.frexp((2 * sizes - 1).clamp(min=0).double()).exponent.long()
    else:
        kind = parts.heights + (sizes > 0)
    numbers = torch.bincount(kind, minlength=2).tolist()  # the one synchronisation
    num_empty, num_singles, *num_of_height = numbers
    in_order = kind.argsort(descending=True, stable=True)
    tall, singles, _ = in_order.split([sum(num_of_height), num_singles, num_empty])

    # index_select and masked_select take a third to two thirds of the time of brackets.
    starts = sizes.cumsum(0) - sizes
    total, start = sizes.index_select(0, tall), starts.index_select(0, tall)
    height = kind.index_select(0, tall) - 2  # above the first level
    shift, slots = height, 1 << height
    before = slots - slots.cumsum(0)  # what a slot's number in its tree has more than that in all
    if parts is not None:
        total, shift = (each.index_select(0, tall) for each in (parts.totals, parts.shifts))
        first_slot = parts.first_slots.index_select(0, tall)
        start = start - ((first_slot * total) >> shift)
        before = before + first_slot
    # Slot j of s holds the rows from floor(j n / s) to floor((j + 1) n / s): one or two of them.
    base = torch.addcmul(start << shift, before, total)
    tree = torch.repeat_interleave(slots)
    base, total = base.index_select(0, tree), total.index_select(0, tree)
    shift = shift.index_select(0, tree)
    scaled = torch.addcmul(base, torch.arange(tree.numel(), device=tree.device), total)
    first = scaled >> shift
    is_pair = ((scaled + total) >> shift) - first == 2
    pairs, passing = first.masked_select(is_pair), first.masked_select(~is_pair)
    neighbours = torch.stack([pairs, pairs + 1], 1).flatten()
    leaves = torch.cat([neighbours, passing, starts.index_select(0, singles)])

    places = None
    if passing.numel():  # the place of each slot's row in the pool of [merged pairs, passing rows]
        merged = is_pair.cumsum(0)
        passed = torch.arange(pairs.numel(), pairs.numel() + tree.numel(), device=tree.device)
        places = torch.where(is_pair, merged - 1, passed - merged)

    num_pairs, alive = [], 0
    for number in reversed(num_of_height):  # groups of one height more are twice as many rows
        alive = 2 * alive + number
        num_pairs.append(alive)
    num_pairs[-1:] = [pairs.numel()] if num_pairs else []
    levels: list[Level] = []
    roots, end = [singles[:0]], 0
    for number in num_of_height:
        # Groups that end at a level lie behind all taller groups' rows.
        count = num_pairs.pop()
        end += count
        roots.append(torch.arange(end - number, end, device=sizes.device))
        take = places[: 2 * count] if places is not None and len(levels) == 1 else None
        levels.append(Level(count, 0 if levels else passing.numel(), take))
    return TreePlan(
        num_rows=leaves.numel(),
        num_groups=sizes.numel(),
        leaves=leaves,
        levels=tuple(levels),
        single_groups=singles,
        root_groups=tall,
        root_nodes=torch.cat(roots[::-1]),
    )


def tree_heights(sizes: Int[Tensor, " groups"]) -> Int[Tensor, " groups"]:
    """ceil(log2 n) of each size, exactly; 0 for empty groups."""
    # The place of n among the powers of two; logarithms would need float64, which MPS has not.
    return torch.bucketize(sizes, 1 << torch.arange(63, device=sizes.device))
