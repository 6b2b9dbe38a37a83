"""Law losses on a static fold: those of `tree_laws`, where nobody counts what is live.

What is not live is asked of the first row instead, and its squares are left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn

from treefold.aggr.element_laws import ElementLaw, LawLoss
from treefold.aggr.recombination import GROUPS_PER_SET, MAX_DIFFERENT, MAX_SIZE, MIN_SIZE
from treefold.aggr.sampling import Sampling
from treefold.algebra import Law, Monoid, difference, tensors_of
from treefold.fold import StaticTrees, mask_like

NUM_SLOTS = 2 * MAX_SIZE


@dataclass(frozen=True, eq=False)
class StaticStates:
    """The states of a static fold, rows and then nodes, and how to draw some of them."""

    states: Tensor
    trees: StaticTrees
    num_groups: int
    sampling: Sampling

    def at(self, *places: Tensor) -> list[Tensor]:
        """The states at each of these places."""
        found = self.states.index_select(0, torch.cat(places))
        return list(found.unflatten(0, (len(places), -1)).unbind(0))

    def chosen(self, is_live: Tensor) -> tuple[Tensor, Tensor]:
        """Places of what is live, as many as are to be sampled, and which of them count."""
        num_nodes = self.sampling.num_nodes
        if num_nodes is None:
            return torch.arange(is_live.shape[0], device=is_live.device), is_live
        places = nn.functional.pad(live_first(is_live), (0, num_nodes))[:num_nodes]
        return places, torch.arange(num_nodes, device=is_live.device) < is_live.sum()

    def mean_square(
        self, left: Tensor, right: Tensor, counts: Tensor, expected: Tensor | int
    ) -> Tensor:
        """As `Sampling.mean_square`, over the rows that count."""
        inner = left.shape[1:-1].numel()
        width = left.shape[-1] if self.sampling.reduction == "mean" else 1
        squares = torch.where(mask_like(counts, left), left - right, 0).square()
        return squares.sum() / torch.as_tensor(expected * inner * width).clamp(min=1)


def live_first(is_live: Tensor) -> Tensor:
    """All places in random order, those that are live before all others."""
    keys = torch.rand(is_live.shape[0], device=is_live.device)
    return torch.where(is_live, keys, 2.0).argsort()


StaticLoss: TypeAlias = Callable[[Monoid, StaticStates], Tensor]


def associativity_loss(op: Monoid, states: StaticStates) -> Tensor:
    """The mean of |(a b) c - a (b c)|² over the triples of a tree."""
    first, children, is_live = states.trees
    is_node = (children >= first) & is_live.unsqueeze(1)
    candidates = is_node.any(1)
    nodes, counts = states.chosen(candidates)
    children = torch.where(is_live.unsqueeze(1), children, 0)
    left, right = children[nodes].unbind(1)
    (a, b), (c, d) = (children[(side - first).clamp(min=0)].unbind(1) for side in (left, right))
    is_left, is_right = (is_node[nodes] & counts.unsqueeze(1)).unbind(1)
    # What is next to the gap between both children: a row itself, or the inner one of its two.
    b, c = torch.where(is_left, b, left), torch.where(is_right, c, right)
    of_left, of_right, of_a, of_b, of_c, of_d = states.at(left, right, a, b, c, d)
    middle = cast(Tensor, op(of_b, of_c))
    ones, others = (
        cast(Tensor, op(torch.cat(one), torch.cat(other)))
        for one, other in (((of_left, middle), (of_c, of_d)), ((of_a, of_b), (middle, of_right)))
    )
    expected = is_node.sum() * counts.sum() / candidates.sum().clamp(min=1)
    return states.mean_square(ones, others, torch.cat([is_left, is_right]), expected)


def commutativity_loss(op: Monoid, states: StaticStates) -> Tensor:
    """The mean of |a b - b a|² over the nodes of a tree."""
    nodes, counts = states.chosen(states.trees.is_live)
    places = torch.where(counts.unsqueeze(1), states.trees.children[nodes], 0)
    left, right, made = states.at(*places.unbind(1), nodes + states.trees.num_rows)
    return states.mean_square(made, cast(Tensor, op(right, left)), counts, counts.sum())


@dataclass(frozen=True)
class StaticElementLaw:
    """As `ElementLaw`, over the states of a static fold."""

    law: Law

    def __call__(self, op: Monoid, states: StaticStates) -> Tensor:
        """The loss."""
        is_row = torch.ones(states.trees.num_rows, dtype=torch.bool, device=states.states.device)
        is_live = torch.cat([is_row, states.trees.is_live])
        places, counts = states.chosen(is_live)
        numbers = torch.arange(places.shape[0], device=places.device) % is_live.sum()
        partners = [live_first(is_live)[numbers] for _ in range(self.law.arity - 1)]
        elements = states.at(torch.where(counts, places, 0), *partners)
        sides = self.law.sides(op, *(element.flatten(0, -2) for element in elements))
        parts = zip(*(tensors_of(side) for side in sides), strict=True)
        squares = [difference(left, right).square() for left, right in parts]
        counted = counts.repeat_interleave(states.states.shape[1:-1].numel())
        kept = [torch.where(mask_like(counted, each), each, 0).sum() for each in squares]
        width = sum(each.shape[1:].numel() for each in squares)
        count = counted.sum() * (width if states.sampling.reduction == "mean" else 1)
        return torch.stack(kept).sum() / count.clamp(min=1)


def consistency_loss(op: Monoid, states: StaticStates) -> Tensor:
    """The mean of |s - t|² over recombined sets, as `recombination.consistency_loss` has it.

    Both trees are drawn here: elements are put into random places of twice as many as a set may
    have, neighbours merge, and what has no neighbour passes.
    """
    num_rows, device = states.trees.num_rows, states.states.device
    num_sets = (states.num_groups + GROUPS_PER_SET - 1) // GROUPS_PER_SET
    sizes = torch.randint(MIN_SIZE, MAX_SIZE + 1, (num_sets, 1), device=device)
    num_different = torch.randint(2, MAX_DIFFERENT + 1, (num_sets, 1), device=device)
    candidates = (torch.rand(num_sets, MAX_DIFFERENT, device=device) * num_rows).long()
    numbers = torch.randint(0, 1 << 30, (num_sets, NUM_SLOTS), device=device) % num_different
    elements = candidates.clamp(max=num_rows - 1).gather(1, numbers)
    sides = [_merged(op, states, elements, sizes) for _ in range(2)]
    everything = torch.ones(num_sets, dtype=torch.bool, device=device)
    return states.mean_square(sides[0], sides[1], everything, num_sets)


def _merged(op: Monoid, states: StaticStates, elements: Tensor, sizes: Tensor) -> Tensor:
    """The first `sizes` elements of each set, merged over a random tree."""
    order = torch.rand(elements.shape, device=elements.device).argsort(1)
    (state,), held = states.at(elements.gather(1, order).flatten()), (order < sizes).flatten()
    for _ in range((NUM_SLOTS - 1).bit_length()):
        left, right = state.unflatten(0, (-1, 2)).unbind(1)
        has_left, has_right = held.unflatten(0, (-1, 2)).unbind(1)
        both = cast(Tensor, op(left, right))
        alone = torch.where(mask_like(has_left, left), left, right)
        state = torch.where(mask_like(has_left & has_right, both), both, alone.to(both.dtype))
        held = has_left | has_right
    return state


STATIC_LAWS: dict[str, StaticLoss] = {
    "associativity": associativity_loss,
    "commutativity": commutativity_loss,
    "consistency": consistency_loss,
}


def static_loss(law: str, losses: Mapping[str, LawLoss]) -> StaticLoss:
    """The loss of that law on a static fold."""
    if law in STATIC_LAWS:
        return STATIC_LAWS[law]
    return StaticElementLaw(cast(ElementLaw, losses[law]).law)
