"""The random bracketing: a fresh tree per group, every shape possible, level by level.

Every gap between neighbouring rows gets a rank, all ranks in random order; a gap closes (its two
sides meet) as soon as its rank is higher than those of the gaps beside it. What results is the
Cartesian tree of the ranks, which is distributed like a random binary search tree: a subtree of n
leaves splits at each of its n - 1 gaps with equal probability. A shape's probability is therefore
the product of 1 / (leaves - 1) over its inner nodes, never zero. The expected depth of a leaf is
about 2 ln n, that of the deepest about 4.3 ln n.
"""

import torch
from torch import Tensor, nn

from treefold.fold.plan import TreePlan
from treefold.fold.plan_builder import PlanBuilder
from treefold.shapes import Int


def plan_random(
    sizes: Int[Tensor, " groups"], generator: torch.Generator | None = None
) -> TreePlan:
    """Trees whose every split is uniform, drawn with `generator` (or torch's own)."""
    plan = PlanBuilder(sizes)
    group = torch.repeat_interleave(torch.where(sizes > 1, sizes, 0))
    pool = torch.repeat_interleave(sizes > 1, sizes).nonzero().squeeze(1)
    gap = _ranked_gaps(group, generator)
    while pool.numel():
        before, after = _beside(gap)
        beside = torch.maximum(before, after)
        closes = gap > beside
        left = closes.nonzero().squeeze(1)
        is_right = torch.zeros_like(closes).index_fill_(0, left + 1, True)
        waiting = (~(closes | is_right)).nonzero().squeeze(1)
        pairs = torch.stack([left, left + 1], 1).flatten()
        plan.meet(pool.index_select(0, pairs), pool.index_select(0, waiting))

        # A merged row sits where its left part sat and has the gap of its right part.
        gap = torch.where(closes, after, gap)
        places = torch.cat([left, waiting])
        pool.index_copy_(0, places, torch.arange(len(places), device=pool.device))
        done = closes & (beside < 0)  # it was the last gap of its group
        plan.finish(group.masked_select(done), pool.masked_select(done))
        alive = (~(is_right | done)).nonzero().squeeze(1)
        gap, group, pool = (each.index_select(0, alive) for each in (gap, group, pool))
    return plan.build()


def _ranked_gaps(group: Tensor, generator: torch.Generator | None) -> Tensor:
    """A rank for the gap behind each row, all different; -1 behind the last row of a group."""
    device = group.device if generator is None else generator.device
    gap = torch.randperm(group.numel(), generator=generator, device=device).to(group.device)
    _, next_group = _beside(group)
    return torch.where(group == next_group, gap, -1)


def _beside(values: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbours of each value in the list; -1 beyond the ends."""
    padded = nn.functional.pad(values, (1, 1), value=-1)
    return padded[:-2], padded[2:]
