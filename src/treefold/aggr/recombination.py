"""Consistency: any two trees over the same elements give the same state, however many there are.

A batch has sets of some sizes only. But the law holds for every set, labelled or not, so it is
asked of sets that are recombined from the elements of the batch: many elements, few of them
different, which is where large sets wear states away.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor

from treefold.aggr.sampling import Sampling
from treefold.aggr.tree_states import TreeStates
from treefold.algebra import Monoid
from treefold.fold import Groups, plan_tree, tree_reduce
from treefold.shapes import Float, Int

GROUPS_PER_SET = 8
"""One set for so many groups of the batch: together they are about as large as the batch."""
MIN_SIZE, MAX_SIZE, MAX_DIFFERENT = 3, 32, 6


class Recombined(NamedTuple):
    """Sets whose elements are `leaves` of a batch, one set behind the other."""

    leaves: Int[Tensor, " elements"]
    sizes: Int[Tensor, " sets"]


def recombine(num_leaves: int, num_sets: int, generator: torch.Generator | None) -> Recombined:
    """Sets of 3 to 32 elements, drawn with repetition from 2 to 6 leaves each."""
    device = None if generator is None else generator.device

    def draw(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator, device=device)

    sizes = draw(MIN_SIZE, MAX_SIZE + 1, num_sets)
    num_different = draw(2, MAX_DIFFERENT + 1, num_sets)
    candidates = draw(0, num_leaves, num_sets, MAX_DIFFERENT)
    owner = Groups.from_sizes(sizes).index
    chosen = draw(0, 1 << 30, owner.numel()) % num_different[owner]
    return Recombined(candidates[owner, chosen], sizes)


def consistency_loss(
    op: Monoid, tree: TreeStates, sampling: Sampling, generator: torch.Generator | None = None
) -> Float[Tensor, ""]:
    """The mean of |s - t|² over recombined sets: s and t are states under two random bracketings.

    `sampling` has the reduction over channels; the number of sets follows that of groups.
    """
    num_leaves, device = tree.plan.num_rows, tree.nodes.device
    num_sets = -(-tree.plan.num_groups // GROUPS_PER_SET) if num_leaves else 0
    found = recombine(max(num_leaves, 1), num_sets, generator)
    sizes = found.sizes.repeat(2)
    order = Groups.from_sizes(sizes).shuffled(generator).order
    plan = plan_tree(sizes, "random", generator, device)
    leaves = found.leaves.repeat(2)[order].to(device)
    states = cast(Tensor, tree_reduce(op, tree.leaves[leaves], plan))
    left, right = states.tensor_split(2)
    return sampling.mean_square(left, right, num_sets)
