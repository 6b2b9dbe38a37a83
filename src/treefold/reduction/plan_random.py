"""The random bracketing: a fresh tree per group, every shape possible, level by level.

Every gap between neighbouring rows gets a rank, all ranks in random order; a gap closes (its two
sides meet) as soon as its rank is higher than those of the gaps beside it. What results is the
Cartesian tree of the ranks, which is distributed like a random binary search tree: a subtree of n
leaves splits at each of its n - 1 gaps with equal probability. A shape's probability is therefore
the product of 1 / (leaves - 1) over its inner nodes, never zero. The expected depth of a leaf is
about 2 ln n, that of the deepest about 4.3 ln n.

Every level takes a few dozen small operations, done where each costs least: in numpy.
"""

import numpy as np
import torch
from torch import Tensor

from treefold.reduction.plan import TreePlan
from treefold.reduction.plan_builder import PlanBuilder
from treefold.shapes import Int


def plan_random(
    sizes: Int[Tensor, " groups"], generator: torch.Generator | None = None
) -> TreePlan:
    """Trees whose every split is uniform, drawn with `generator` (or torch's own)."""
    on_cpu = sizes.cpu()
    plan, group = PlanBuilder(on_cpu), np.repeat(np.arange(len(on_cpu)), on_cpu.numpy())
    pool = (on_cpu.numpy() > 1)[group].nonzero()[0]
    group = group[pool]
    gap = _ranked_gaps(group, sizes.device, generator)
    while pool.size:
        closes = (gap > _before(gap, -1)) & (gap > _behind(gap, -1))
        is_right = _before(closes, False)
        left, waiting = closes.nonzero()[0], (~(closes | is_right)).nonzero()[0]
        pairs = np.stack([left, left + 1], 1).ravel()
        plan.meet(torch.from_numpy(pool[pairs]), torch.from_numpy(pool[waiting]))

        # A merged row sits where its left part sat and has the gap of its right part.
        gap = np.where(closes, _behind(gap, -1), gap)
        pool = np.empty_like(pool)
        pool[left], pool[waiting] = np.arange(left.size), left.size + np.arange(waiting.size)
        stays = ~is_right
        gap, group, pool, closes = gap[stays], group[stays], pool[stays], closes[stays]
        done = closes & (gap < 0) & (_before(gap, -1) < 0)
        if done.any():
            plan.finish(torch.from_numpy(group[done]), torch.from_numpy(pool[done]))
            gap, group, pool = gap[~done], group[~done], pool[~done]
    made = plan.build()
    return made if sizes.device == on_cpu.device else made.to(sizes.device)


def _ranked_gaps(
    group: np.ndarray, device: torch.device, generator: torch.Generator | None
) -> np.ndarray:
    """A rank for the gap behind each row, all different; -1 behind the last row of a group."""
    device = device if generator is None else generator.device
    ranks = torch.randperm(group.size, generator=generator, device=device).cpu().numpy()
    return np.where(group == _behind(group, -1), ranks, -1)


def _before(values: np.ndarray, outside: int) -> np.ndarray:
    """What lies before each place; `outside` before the first."""
    shifted = np.empty_like(values)
    shifted[:1], shifted[1:] = outside, values[:-1]
    return shifted


def _behind(values: np.ndarray, outside: int) -> np.ndarray:
    """What lies behind each place; `outside` behind the last."""
    shifted = np.empty_like(values)
    shifted[-1:], shifted[:-1] = outside, values[1:]
    return shifted
