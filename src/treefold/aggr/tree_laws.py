"""Law losses on the nodes of a fold, sharing what the fold has already computed.

At a node ((a b) (c d)) the paper asks for (a b) c = a (b c) and (b c) d = b (c d). There, a b and
c d are nodes already and b c serves twice: five applications for two triples, not eight. At
((a b) c), and at its mirror image (a (b c)), the node itself is one side: two applications for one.
"""

from typing import cast

import torch
from torch import Tensor

from treefold.aggr.element_laws import ElementLaw, LawLoss
from treefold.aggr.law_forest import Forest, associativity_forest, commutativity_forest
from treefold.aggr.sampling import Sampling
from treefold.aggr.tree_states import TreeStates
from treefold.algebra import IDENTITY, Monoid
from treefold.fold import tree_reduce


def associativity_loss(
    op: Monoid, tree: TreeStates, sampling: Sampling, generator: torch.Generator | None = None
) -> Tensor:
    """The mean of |(a b) c - a (b c)|² over the triples of a tree, without bias if sampled."""
    is_node = tree.plan.children >= tree.plan.num_rows
    candidates = is_node.any(1).nonzero().squeeze(1)
    nodes = sampling.choose(candidates, generator)
    # Each child that is a node itself makes one triple.
    expected = int(is_node.sum()) * nodes.numel() / max(candidates.numel(), 1)
    left, right = _sides(op, tree, associativity_forest(tree.plan, nodes))
    return sampling.mean_square(left, right, expected)


def commutativity_loss(
    op: Monoid, tree: TreeStates, sampling: Sampling, generator: torch.Generator | None = None
) -> Tensor:
    """The mean of |a b - b a|² over the nodes of a tree, without bias if sampled."""
    all_nodes = torch.arange(tree.plan.num_applications, device=tree.nodes.device)
    nodes = sampling.choose(all_nodes, generator)
    left, right = _sides(op, tree, commutativity_forest(tree.plan, nodes))
    return sampling.mean_square(left, right, nodes.numel())


TREE_LAWS: dict[str, LawLoss] = {
    "associativity": associativity_loss,
    "commutativity": commutativity_loss,
    "identity": ElementLaw(IDENTITY),
}


def _sides(op: Monoid, tree: TreeStates, forest: Forest) -> tuple[Tensor, Tensor]:
    """Both sides of a law, row by row."""
    sides = cast(Tensor, tree_reduce(op, tree.at(forest.places), forest.plan))
    left, right = sides.tensor_split(2)
    return left, right
