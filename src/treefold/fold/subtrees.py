"""Parts of balanced trees: what a shard, or a piece of a hub, can fold without the other rows.

The balanced tree over n rows has 2^k slots of one or two rows each, see `plan_balanced`. Any run of
consecutive rows is covered by a few subtrees, and once each is folded, joining them gives the tree
over all rows, meeting for meeting:

    n = 8, rows 0 to 4 | 5 to 7     ((a b)(c d)) e  |  f (g h)
                                     the first run is two subtrees, the second two
                                     joined: ((a b)(c d)) ((e f)(g h))

A run between two cuts ⌊i n / 2^d⌋ and ⌊(i + 1) n / 2^d⌋ is a single subtree.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from treefold.fold.plan import TreePlan
from treefold.fold.plan_balanced import Parts, plan_balanced, tree_heights
from treefold.fold.plan_ragged import PlanBuilder
from treefold.shapes import Bool, Int


@dataclass(frozen=True, eq=False)
class Subtrees:
    """Subtree number `places[i]` among those of 2^`heights[i]` slots, in a tree over `totals[i]`.

    Half of a slot, which is one of its two rows, has height -1.
    """

    totals: Int[Tensor, " parts"]
    heights: Int[Tensor, " parts"]
    places: Int[Tensor, " parts"]
    runs: Int[Tensor, " parts"]
    """The run of rows that each belongs to; ascending, and in the order of rows within a run."""

    @cached_property
    def shifts(self) -> Int[Tensor, " parts"]:
        """The height of the whole tree: it has 2^shift slots."""
        return _slot_levels(self.totals)

    @cached_property
    def first_rows(self) -> Int[Tensor, " parts"]:
        """The first row of each, counted from the first row of its tree."""
        second_half = (self.heights < 0) & (self.places % 2 == 1)
        return _rows_before(self.first_slots, self.totals, self.shifts) + second_half

    @cached_property
    def first_slots(self) -> Int[Tensor, " parts"]:
        """The first slot of each."""
        return torch.where(self.heights < 0, self.places >> 1, self.places << self.heights.clamp(0))

    @cached_property
    def sizes(self) -> Int[Tensor, " parts"]:
        """The number of rows of each."""
        end = self.first_slots + (1 << self.heights.clamp(0))
        whole = _rows_before(end, self.totals, self.shifts) - self.first_rows
        return torch.where(self.heights < 0, 1, whole)

    def __getitem__(self, index: Tensor | slice) -> "Subtrees":
        return Subtrees(
            self.totals[index], self.heights[index], self.places[index], self.runs[index]
        )

    def __len__(self) -> int:
        return self.heights.numel()

    def plan(self) -> TreePlan:
        """Fold the rows of each subtree to one row; its rows are consecutive, and all are here."""
        heights = torch.where(self.sizes > 1, self.heights + 1, 0)
        parts = Parts(heights, self.totals, self.shifts, self.first_slots)
        return plan_balanced(self.sizes, parts)


def cut_trees(
    totals: Int[Tensor, " runs"], low: Int[Tensor, " runs"], high: Int[Tensor, " runs"]
) -> Subtrees:
    """The largest subtrees that cover the rows `low` to `high - 1` of trees over `totals` rows."""
    runs = (high > low).nonzero().squeeze(1)
    totals, low, high = totals[runs], low[runs], high[runs]
    shifts = _slot_levels(totals)
    begin = (low << shifts) + totals - 1
    first = begin // totals  # the first slot that begins at `low` or later
    last = (((high + 1) << shifts) - 1) // totals  # slots before this one end at `high` or earlier
    found: list[tuple[Bool[Tensor, " runs"], int, Tensor]] = [
        (_rows_before(first, totals, shifts) > low, -1, 2 * first - 1),
        (_rows_before(last, totals, shifts) < high, -1, 2 * last),
    ]
    height = 0
    while bool((first < last).any()):
        odd = (first < last) & (first % 2 == 1)
        found.append((odd, height, first))
        first = first + odd
        odd = (first < last) & (last % 2 == 1)
        found.append((odd, height, last - 1))
        first, last, height = first >> 1, (last - odd.long()) >> 1, height + 1
    return _in_order_of_rows(totals, runs, found)


def plan_joining(parts: Subtrees, groups: Int[Tensor, " parts"], num_groups: int) -> TreePlan:
    """Join folded subtrees to the trees they are parts of, one tree per group.

    `parts` are sorted by group and then by row, and those of a group are its whole tree.
    """
    plan = PlanBuilder(torch.bincount(groups, minlength=num_groups))
    pool = (plan.sizes[groups] > 1).nonzero().squeeze(1)
    heights, shifts, groups = parts.heights[pool], parts.shifts[pool], groups[pool]
    order = torch.arange(pool.numel(), device=pool.device)
    height = -1
    while pool.numel():
        mine = heights == height
        height += 1
        num_pairs = int(mine.sum()) // 2
        if not num_pairs:
            continue
        # In the order of rows, those of one height are pairs of siblings.
        left = mine.nonzero().squeeze(1)[::2]
        plan.meet(pool[mine], pool[~mine])
        done = shifts[left] == height
        plan.finish(groups[left[done]], done.nonzero().squeeze(1))

        nodes = torch.arange(num_pairs, device=pool.device)
        waiting = num_pairs + torch.arange(int((~mine).sum()), device=pool.device)
        kept = torch.cat([left[~done], (~mine).nonzero().squeeze(1)])
        pool, heights = torch.cat([nodes[~done], waiting]), heights[kept].clamp(min=height)
        shifts, groups, order = shifts[kept], groups[kept], order[kept]
        by_row = order.argsort()
        pool, heights, shifts, groups, order = (
            part[by_row] for part in (pool, heights, shifts, groups, order)
        )
    return plan.build()


def _slot_levels(totals: Int[Tensor, " trees"]) -> Int[Tensor, " trees"]:
    """The k of a tree's 2^k slots."""
    return (tree_heights(totals) - 1).clamp(min=0)


def _rows_before(slot: Tensor, total: Tensor, shift: Tensor) -> Tensor:
    return (slot * total) >> shift


def _in_order_of_rows(
    totals: Tensor, runs: Tensor, found: list[tuple[Tensor, int, Tensor]]
) -> Subtrees:
    where = [here.nonzero().squeeze(1) for here, _, _ in found]
    heights = [torch.full_like(at, height) for at, (_, height, _) in zip(where, found, strict=True)]
    places = [place[at] for at, (_, _, place) in zip(where, found, strict=True)]
    at = torch.cat(where)
    parts = Subtrees(totals[at], torch.cat(heights), torch.cat(places), runs[at])
    by_row = parts.first_rows.argsort()
    return parts[by_row[parts.runs[by_row].argsort(stable=True)]]
