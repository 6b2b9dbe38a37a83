"""Both sides of a law, for many nodes of a tree at once, as one small forest to be folded.

Its leaves are states of the tree, and its groups are the sides: first all left-hand sides, then all
right-hand sides. A state that is one side already is a group of one row. A fold adds to a state's
gradient level by level, so nothing is met twice in one level; twice in different levels is fine.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from treefold.fold import Level, TreePlan
from treefold.shapes import Int


class Forest(NamedTuple):
    """The places in the tree whose states are the rows, and how these are folded."""

    places: Int[Tensor, " rows"]
    plan: TreePlan


def commutativity_forest(tree: TreePlan, nodes: Int[Tensor, " m"]) -> Forest:
    """The node a b itself, and b a."""
    a, b = tree.children[nodes].unbind(1)
    places = torch.cat([_pairs(b, a), nodes + tree.num_rows])
    made = _count(0, nodes.numel(), nodes)
    levels = [Level(nodes.numel(), 0, None)]
    return Forest(places, _plan(levels, singles=made, roots=made + nodes.numel(), nodes=made))


def associativity_forest(tree: TreePlan, nodes: Int[Tensor, " m"]) -> Forest:
    """(a b) c and a (b c) for the triples at these nodes, each of which has a node below.

    At ((a b) (c d)) there are two, (a b) c = a (b c) and b (c d) = (b c) d, which share b c. At
    ((a b) c), and at its mirror image (a (b c)), there is one, of which one side is the node.
    """
    first, children = tree.num_rows, tree.children
    both, lefts, rights = _by_kind(tree, nodes)
    ab, cd = children[both].unbind(1)
    (a, b), (c, d) = children[ab - first].unbind(1), children[cd - first].unbind(1)
    left_ab, left_c = children[lefts].unbind(1)
    left_a, left_b = children[left_ab - first].unbind(1)
    right_a, right_bc = children[rights].unbind(1)
    right_b, right_c = children[right_bc - first].unbind(1)
    places = [
        _pairs(torch.cat([b, left_b, right_a, ab, b]), torch.cat([c, left_c, right_b, c, cd])),
        *(a, left_a, right_c, d),
        torch.cat([lefts, rights]) + first,
    ]
    plan = _associativity_plan(both.numel(), lefts.numel(), rights.numel(), nodes)
    return Forest(torch.cat(places), plan)


def _associativity_plan(num_both: int, num_lefts: int, num_rights: int, like: Tensor) -> TreePlan:
    """Plan the meetings. First come those of ((a b) (c d)), then ((a b) c), then (a (b c)).

    Level 1 makes [b c, b c, a b] and [(a b) c, b (c d)], while [a, a, c] and [d] wait; level 2
    [a (b c), a (b c), (a b) c]; and level 3 [(b c) d]: no level needs its b c twice. Sides
    are [(a b) c, node, node, b (c d)] and [a (b c), a (b c), (a b) c, (b c) d].
    """
    num_nodes = num_both + num_lefts + num_rights
    num_first = num_nodes + 2 * num_both
    inner, outer = _count(0, num_nodes, like), _count(num_first, num_nodes, like)
    is_ab = inner >= num_both + num_lefts
    meet = _pairs(torch.where(is_ab, inner, outer), torch.where(is_ab, outer, inner))
    wait = _pairs(inner[:num_both], _count(num_first + num_nodes, num_both, like))
    levels = [
        Level(num_first, num_nodes + num_both, None),
        Level(num_nodes, 2 * num_both, torch.cat([meet, wait])),
        Level(num_both, 0, _count(num_nodes, 2 * num_both, like)),
    ]
    sides = _count(0, 2 * (num_nodes + num_both), like)
    return _plan(
        levels,
        singles=sides[num_both:num_nodes],
        roots=torch.cat([sides[:num_both], sides[num_nodes:]]),
        nodes=_count(num_nodes, num_nodes + 3 * num_both, like),
    )


def _by_kind(tree: TreePlan, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes of which both children are nodes, only the left one, and only the right one."""
    left, right = (tree.children[nodes] >= tree.num_rows).unbind(1)
    return nodes[left & right], nodes[left & ~right], nodes[right & ~left]


def _plan(levels: list[Level], singles: Tensor, roots: Tensor, nodes: Tensor) -> TreePlan:
    num_rows = 2 * levels[0].num_pairs + levels[0].num_waiting + singles.numel()
    return TreePlan(
        num_rows=num_rows,
        num_groups=singles.numel() + roots.numel(),
        leaves=_count(0, num_rows, roots),
        levels=tuple(level for level in levels if level.num_pairs),
        single_groups=singles,
        root_groups=roots,
        root_nodes=nodes,
    )


def _pairs(lefts: Tensor, rights: Tensor) -> Tensor:
    """As neighbours."""
    return torch.stack([lefts, rights], 1).flatten()


def _count(start: int, how_many: int, like: Tensor) -> Tensor:
    return torch.arange(start, start + how_many, device=like.device)
