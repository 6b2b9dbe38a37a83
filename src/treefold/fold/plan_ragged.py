"""Bracketings whose levels are all ragged: planned level by level, all groups at once."""

import torch
from torch import Tensor, nn

from treefold.fold.groups import places_within
from treefold.fold.plan import Level, TreePlan
from treefold.shapes import Int


class PlanBuilder:
    """Writes a plan level by level, for planners whose levels are all ragged.

    Singles and empty groups are known from the sizes. Positions are places in the pool: at first
    rows of `x`, then, after each level, the nodes it made (from 0) followed by the rows it left
    waiting.
    """

    def __init__(self, sizes: Int[Tensor, " groups"]) -> None:
        self.sizes = sizes
        self.starts = sizes.cumsum(0) - sizes
        self.single_groups = (sizes == 1).nonzero().squeeze(1)
        self._leaves = self.starts[self.single_groups]
        self._levels: list[Level] = []
        self._root_groups = [sizes.new_zeros(0)]
        self._root_nodes = [sizes.new_zeros(0)]
        self._made = 0

    def meet(self, pairs: Int[Tensor, " twice_pairs"], waiting: Int[Tensor, " waiting"]) -> None:
        """The next level: neighbours in `pairs` meet, the rows in `waiting` stay in play."""
        take: Tensor | None = torch.cat([pairs, waiting])
        if self._levels:
            self._made += self._levels[-1].num_pairs
        else:  # the first level's choice is the order of the leaves
            self._leaves, take = torch.cat([pairs, waiting, self._leaves]), None
        self._levels.append(Level(pairs.numel() // 2, waiting.numel(), take))

    def finish(self, groups: Int[Tensor, " done"], nodes: Int[Tensor, " done"]) -> None:
        """These groups are down to one row: this node of the level just added."""
        self._root_groups.append(groups)
        self._root_nodes.append(self._made + nodes)

    def build(self) -> TreePlan:
        """The finished plan."""
        return TreePlan(
            num_rows=self._leaves.numel(),
            num_groups=self.sizes.numel(),
            leaves=self._leaves,
            levels=tuple(self._levels),
            single_groups=self.single_groups,
            root_groups=torch.cat(self._root_groups),
            root_nodes=torch.cat(self._root_nodes),
        )


def plan_carry(sizes: Int[Tensor, " groups"]) -> TreePlan:
    """Pair neighbours; an odd last row waits for the next level: ceil(log2 n) levels.

    Simple, but a waiting row can end far nearer to the root than its siblings, where it gets far
    more gradient. It is the tree of PyG's `LCMAggregation`, for PyG's checkpoints.
    """
    plan = PlanBuilder(sizes)
    alive = (sizes > 1).nonzero().squeeze(1)
    counts = sizes[alive]
    pool = places_within(counts) + torch.repeat_interleave(plan.starts[alive], counts)
    while alive.numel():
        pairs, odd = counts // 2, counts % 2
        waits = places_within(counts) == torch.repeat_interleave(2 * pairs, counts)
        plan.meet(pool[~waits], pool[waits])

        first_pair = pairs.cumsum(0) - pairs
        done = counts == 2
        plan.finish(alive[done], first_pair[done])

        # What is left of a group: its pairs' nodes, then its odd row, which waits behind all nodes.
        first_odd = pairs.sum() + odd.cumsum(0) - odd
        alive, counts = alive[~done], (pairs + odd)[~done]
        place = places_within(counts)
        pairs, first_pair, first_odd = torch.stack(
            [pairs[~done], first_pair[~done], first_odd[~done]]
        ).repeat_interleave(counts, dim=1)
        pool = torch.where(place < pairs, first_pair + place, first_odd)
    return plan.build()


def plan_random(
    sizes: Int[Tensor, " groups"], generator: torch.Generator | None = None
) -> TreePlan:
    """Draw a fresh tree per group with `generator` (or torch's own): every shape is possible.

    Every gap between neighbouring rows gets a rank, all ranks in random order; a gap closes (its
    two sides meet) as soon as its rank is higher than those of the gaps next to it. The result is
    the Cartesian tree of the ranks, which is distributed like a random binary search tree: a
    subtree of n leaves splits at each of its n - 1 gaps with equal probability. A shape's
    probability is therefore the product of 1 / (leaves - 1) over its inner nodes, never zero. The
    expected depth of a leaf is about 2 ln n, that of the deepest about 4.3 ln n.
    """
    plan = PlanBuilder(sizes)
    group = torch.repeat_interleave(torch.where(sizes > 1, sizes, 0))
    pool = torch.repeat_interleave(sizes > 1, sizes).nonzero().squeeze(1)
    gap = _ranked_gaps(group, generator)
    while pool.numel():
        before, after = _neighbours(gap)
        highest = torch.maximum(before, after)
        closes = gap > highest
        left = closes.nonzero().squeeze(1)
        is_right = torch.zeros_like(closes).index_fill_(0, left + 1, True)
        waiting = (~(closes | is_right)).nonzero().squeeze(1)
        pairs = torch.stack([left, left + 1], 1).flatten()
        plan.meet(pool.index_select(0, pairs), pool.index_select(0, waiting))

        # A merged row sits where its left part sat and has the gap of its right part.
        gap = torch.where(closes, after, gap)
        places = torch.cat([left, waiting])
        pool.index_copy_(0, places, torch.arange(len(places), device=pool.device))
        done = closes & (highest < 0)  # it was the last gap of its group
        plan.finish(group.masked_select(done), pool.masked_select(done))
        alive = (~(is_right | done)).nonzero().squeeze(1)
        gap, group, pool = (each.index_select(0, alive) for each in (gap, group, pool))
    return plan.build()


def _ranked_gaps(group: Tensor, generator: torch.Generator | None) -> Tensor:
    """A rank for the gap behind each row, all different; -1 behind the last row of a group."""
    device = group.device if generator is None else generator.device
    gap = torch.randperm(group.numel(), generator=generator, device=device).to(group.device)
    _, next_group = _neighbours(group)
    return torch.where(group == next_group, gap, -1)


def _neighbours(values: Tensor) -> tuple[Tensor, Tensor]:
    """The values before and after each one in the list; -1 beyond the ends."""
    padded = nn.functional.pad(values, (1, 1), value=-1)
    return padded[:-2], padded[2:]
