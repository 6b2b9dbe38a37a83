"""Both sides of a law, for many nodes of a tree at once, as one small forest to be folded.

Its leaves are states of the tree, and its groups are the sides: first all left-hand sides, then all
right-hand sides. A state that is one side already is a group of one row. A fold adds to a state's
gradient level by level, so nothing is met twice in one level; twice in different levels is fine.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from treefold.reduction import Level, TreePlan
from treefold.shapes import Int


class Forest(NamedTuple):
    """The places in the tree whose states are the rows, and how these are folded."""

    places: Int[Tensor, " rows"]
    plan: TreePlan


def commutativity_forest(tree: TreePlan, nodes: Int[Tensor, " m"]) -> Forest:
    """The node a b itself, and b a."""
    num_nodes = nodes.numel()
    a, b = tree.children[nodes].unbind(1)
    numbers = _count(0, 2 * num_nodes, nodes)
    levels = [Level(num_nodes, 0, None)]
    places = torch.cat([_pairs(b, a), nodes + tree.num_rows])
    own, made = numbers.chunk(2)
    return _forest(places, levels, own, made, made - num_nodes)


def associativity_forest(tree: TreePlan, nodes: Int[Tensor, " m"]) -> Forest:
    """(a b) c and a (b c) for the triples at these nodes, each of which has a node below.

    At ((a b) (c d)) there are two, (a b) c = a (b c) and (b c) d = b (c d), which share b c. At
    ((a b) c), and at its mirror image (a (b c)), there is one, of which one side is the node.
    """
    first, kinds = tree.num_rows, _by_kind(tree, nodes)
    (both, only_left, only_right), (k, m, n) = kinds, [kind.numel() for kind in kinds]
    ab, cd = tree.children[both].unbind(1)
    (a, b), (c, d) = tree.children[ab - first].unbind(1), tree.children[cd - first].unbind(1)
    left_ab, left_c = tree.children[only_left].unbind(1)
    left_a, left_b = tree.children[left_ab - first].unbind(1)
    right_a, right_bc = tree.children[only_right].unbind(1)
    right_b, right_c = tree.children[right_bc - first].unbind(1)

    # Level 1 makes [b c, left b c, right a b, (a b) c, b (c d)]; a, d, left a, right c wait.
    lefts = torch.cat([b, left_b, right_a, ab, b])
    rights = torch.cat([c, left_c, right_b, c, cd])
    waiting = torch.cat([a, left_a, right_c, d])
    own = torch.cat([only_left, only_right]) + first
    places = torch.cat([_pairs(lefts, rights), waiting, own])

    made_1, made_2 = 3 * k + m + n, k + m + n
    middle = _count(0, made_2, nodes)
    outer = _count(made_1, made_2, nodes)
    is_left = middle >= k + m  # in (a b) c what has been made is on the left
    pairs_2 = _pairs(torch.where(is_left, middle, outer), torch.where(is_left, outer, middle))
    # b c meets d a level later than a.
    waiting_2 = _pairs(middle[:k], _count(made_1 + made_2, k, nodes))
    levels = [
        Level(made_1, waiting.numel(), None),
        Level(made_2, 2 * k, torch.cat([pairs_2, waiting_2])),
        Level(k, 0, _count(made_2, 2 * k, nodes)),
    ]

    # Sides: [(a b) c, b (c d), left node, right node], [a (b c), (b c) d, left a (b c), right (a b) c]
    num_sides = 2 * k + m + n
    sides = _count(0, 2 * num_sides, nodes)
    roots = torch.cat(
        [
            sides[: 2 * k],
            sides[num_sides : num_sides + k],
            sides[num_sides + 2 * k :],
            sides[num_sides + k : num_sides + 2 * k],
        ]
    )
    root_nodes = _count(k + m + n, 4 * k + m + n, nodes)
    return _forest(places, levels, sides[2 * k : num_sides], roots, root_nodes)


def _by_kind(tree: TreePlan, nodes: Tensor) -> list[Tensor]:
    """Nodes of which both children are nodes, only the left one, and only the right one."""
    left, right = (tree.children[nodes] >= tree.num_rows).unbind(1)
    return [nodes[left & right], nodes[left & ~right], nodes[right & ~left]]


def _forest(
    places: Tensor, levels: list[Level], singles: Tensor, roots: Tensor, root_nodes: Tensor
) -> Forest:
    plan = TreePlan(
        num_rows=places.numel(),
        num_groups=singles.numel() + roots.numel(),
        leaves=torch.arange(places.numel(), device=places.device),
        levels=tuple(level for level in levels if level.num_pairs),
        single_groups=singles,
        root_groups=roots,
        root_nodes=root_nodes,
    )
    return Forest(places, plan)


def _pairs(lefts: Tensor, rights: Tensor) -> Tensor:
    """As neighbours."""
    return torch.stack([lefts, rights], 1).flatten()


def _count(start: int, how_many: int, like: Tensor) -> Tensor:
    return torch.arange(start, start + how_many, device=like.device)
