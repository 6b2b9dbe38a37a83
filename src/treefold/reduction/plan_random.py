"""The random bracketing: a fresh tree per group, every shape possible, level by level.

Every gap between neighbouring rows gets a rank, all ranks in random order; a gap closes (its two
sides meet) as soon as its rank is higher than those of the gaps beside it. What results is the
Cartesian tree of the ranks, which is distributed like a random binary search tree: a subtree of n
leaves splits at each of its n - 1 gaps with equal probability. A shape's probability is therefore
the product of 1 / (leaves - 1) over its inner nodes, never zero. The expected depth of a leaf is
about 2 ln n, that of the deepest about 4.3 ln n.
"""

import torch
from torch import Tensor

from treefold.reduction.plan import TreePlan
from treefold.reduction.plan_builder import PlanBuilder
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
        closes = (gap > _shifted(gap, 1)) & (gap > _shifted(gap, -1))
        is_right = _shifted(closes, 1)
        left = closes.nonzero().squeeze(1)
        waiting = (~(closes | is_right)).nonzero().squeeze(1)
        plan.meet(pool[torch.stack([left, left + 1], 1).flatten()], pool[waiting])

        # A merged row sits where its left part sat and has the gap of its right part.
        gap = torch.where(closes, _shifted(gap, -1), gap)
        pool = torch.empty_like(pool).index_copy_(
            0,
            torch.cat([left, waiting]),
            torch.arange(len(left) + len(waiting), device=pool.device),
        )
        stays = ~is_right
        gap, group, pool, closes = gap[stays], group[stays], pool[stays], closes[stays]
        done = closes & (gap < 0) & (_shifted(gap, 1) < 0)
        plan.finish(group[done], pool[done])
        gap, group, pool = gap[~done], group[~done], pool[~done]
    return plan.build()


def _ranked_gaps(group: Tensor, generator: torch.Generator | None) -> Tensor:
    """A rank for the gap behind each row, all different; -1 behind the last row of a group."""
    device = group.device if generator is None else generator.device
    gap = torch.randperm(group.numel(), generator=generator, device=device).to(group.device)
    return torch.where(group == _shifted(group, -1), gap, -1)


def _shifted(values: Tensor, by: int) -> Tensor:
    """`values[i - by]` at place i; beyond the ends, -1 (or False): no gap there."""
    shifted = values.roll(by)
    outside = 0 if by > 0 else -1
    if values.numel():
        shifted[outside] = -1 if values.dtype != torch.bool else False
    return shifted
