"""Law losses on the nodes of a fold, sharing what the fold has already computed.

At a node ((a b) (c d)) the paper asks for (a b) c = a (b c) and (b c) d = b (c d). There, a b and
c d are nodes already and b c serves twice: five applications for two triples, not eight. At
((a b) c), and at its mirror image (a (b c)), the node itself is one side: two applications for one.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import torch
from torch import Tensor

from treefold.algebra import IDENTITY, Monoid
from treefold.reduction import TreePlan
from treefold.shapes import Float, Int

Reduction: TypeAlias = Literal["sum", "mean"] | str


@dataclass(frozen=True)
class TreeStates:
    """All states of a fold: leaves, then nodes, addressed as in `TreePlan.children`."""

    plan: TreePlan
    states: Float[Tensor, " states *inner channels"]

    @classmethod
    def of(cls, plan: TreePlan, leaves: Tensor, nodes: Tensor) -> "TreeStates":
        """From leaves in the order of the plan, and nodes."""
        return cls(plan, torch.cat([leaves, nodes]))


@dataclass(frozen=True)
class Sampling:
    """How a law loss is taken: from `num_nodes` random nodes (None: all), reduced over features.

    The `"sum"` of squares over features is the paper's |·|²; their `"mean"` does not grow with the
    number of channels.
    """

    num_nodes: int | None = None
    reduction: Reduction = "sum"

    def __post_init__(self) -> None:
        if self.num_nodes is not None and self.num_nodes < 1:
            raise ValueError(f"{self.num_nodes} tree nodes; expected 1 or more, or None for all")
        if self.reduction not in ("sum", "mean"):
            raise ValueError(f"the reduction is {self.reduction!r}; expected 'sum' or 'mean'")

    def choose(
        self, candidates: Int[Tensor, " n"], generator: torch.Generator | None
    ) -> Int[Tensor, " m"]:
        """Some of the candidates, each with the same probability, none twice."""
        if self.num_nodes is None or self.num_nodes >= candidates.numel():
            return candidates
        device = candidates.device if generator is None else generator.device
        shuffled = torch.randperm(candidates.numel(), generator=generator, device=device)
        return candidates[shuffled[: self.num_nodes].to(candidates.device)]

    def mean_square(self, left: Tensor, right: Tensor, expected_rows: float | int) -> Tensor:
        """Squared distances of rows, summed and divided by how many are expected of the sample."""
        inner = left.shape[1:-1].numel()
        width = left.shape[-1] if self.reduction == "mean" else 1
        return (left - right).square().sum() / max(expected_rows * inner * width, 1)


def associativity_loss(
    op: Monoid, tree: TreeStates, sampling: Sampling, generator: torch.Generator | None = None
) -> Tensor:
    """The mean of |(a b) c - a (b c)|² over the triples of a tree, without bias if sampled."""
    children, first = tree.plan.children, tree.plan.num_rows
    is_node = children >= first
    candidates = is_node.any(1).nonzero().squeeze(1)
    nodes = sampling.choose(candidates, generator)
    # Each child that is a node itself makes one triple.
    expected = int(is_node.sum()) * nodes.numel() / max(candidates.numel(), 1)

    left, right = children[nodes].unbind(1)
    both = (left >= first) & (right >= first)
    only_left, only_right = ~both & (left >= first), ~both & (right >= first)
    ab, cd = left[both], right[both]
    wanted = [
        *children[ab - first].unbind(1),
        *children[cd - first].unbind(1),
        ab,
        cd,
        *children[left[only_left] - first].unbind(1),  # a, b of ((a b) c)
        right[only_left],
        nodes[only_left] + first,
        left[only_right],  # a of (a (b c))
        *children[right[only_right] - first].unbind(1),
        nodes[only_right] + first,
    ]
    counts = [addresses.numel() for addresses in wanted]
    found = tree.states.index_select(0, torch.cat(wanted)).split(counts)
    a, b, c, d, ab, cd, left_a, left_b, left_c, left_abc, right_a, right_b, right_c, right_abc = (
        found
    )

    bc, left_bc, right_ab = _apply(op, [(b, c), (left_b, left_c), (right_a, right_b)])
    ab_c, a_bc, bc_d, b_cd, left_a_bc, right_ab_c = _apply(
        op, [(ab, c), (a, bc), (bc, d), (b, cd), (left_a, left_bc), (right_ab, right_c)]
    )
    return sampling.mean_square(
        torch.cat([ab_c, bc_d, left_abc, right_ab_c]),
        torch.cat([a_bc, b_cd, left_a_bc, right_abc]),
        expected,
    )


def commutativity_loss(
    op: Monoid, tree: TreeStates, sampling: Sampling, generator: torch.Generator | None = None
) -> Tensor:
    """The mean of |a b - b a|² over the nodes of a tree, without bias if sampled."""
    children, first = tree.plan.children, tree.plan.num_rows
    nodes = sampling.choose(torch.arange(len(children), device=children.device), generator)
    a, b = children[nodes].unbind(1)
    ab, a, b = tree.states.index_select(0, torch.cat([nodes + first, a, b])).chunk(3)
    return sampling.mean_square(ab, cast(Tensor, op(b, a)), nodes.numel())


def identity_loss(
    op: Monoid, tree: TreeStates, sampling: Sampling, generator: torch.Generator | None = None
) -> Tensor:
    """The mean of |a e - a|² + |e a - a|² over the states of a tree, without bias if sampled."""
    places = torch.arange(tree.states.shape[0], device=tree.states.device)
    states = tree.states.index_select(0, sampling.choose(places, generator))
    return IDENTITY.loss(op, states.flatten(0, -2), reduction=sampling.reduction)


TREE_LAWS = {
    "associativity": associativity_loss,
    "commutativity": commutativity_loss,
    "identity": identity_loss,
}


def _apply(op: Monoid, pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, ...]:
    """Combine several stacks of pairs in one call."""
    lefts, rights = zip(*pairs, strict=True)
    combined = cast(Tensor, op(torch.cat(lefts), torch.cat(rights)))
    return tuple(combined.split([left.shape[0] for left in lefts]))
