"""The carry bracketing: pair neighbours, carry an odd last row up a level.

Simple, but a carried row can end far nearer to the root than its siblings, where it gets far more
gradient. It is the tree of PyG's `LCMAggregation`, kept so that PyG's checkpoints stay usable.
"""

import torch
from torch import Tensor

from treefold.fold.groups import places_within
from treefold.fold.plan import TreePlan
from treefold.fold.plan_builder import PlanBuilder
from treefold.shapes import Int


def plan_carry(sizes: Int[Tensor, " groups"]) -> TreePlan:
    """PyG's tree: ceil(log2 n) levels, an odd row at the end of a group waits for the next."""
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
