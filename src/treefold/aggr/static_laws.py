"""Law losses on a static fold: those of `tree_laws`, where nobody counts what is live.

Rows that are not live become copies of the first row, and their squares are left out.
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
from treefold.fold import (
    StaticFold,
    StaticPlan,
    StaticTriples,
    SuppliedPlan,
    static_triples,
    supplied_triples,
)

NUM_SLOTS = 2 * MAX_SIZE


@dataclass(frozen=True, eq=False)
class StaticStates:
    """The states of a static fold, and how to draw some of them."""

    rows: Tensor
    plan: StaticPlan | SuppliedPlan
    fold: StaticFold
    sampling: Sampling

    def chosen(self, is_live: Tensor, *states: Tensor) -> tuple[Tensor, list[Tensor]]:
        """States that count, as many as are to be sampled, and which of what is returned counts."""
        num_nodes = self.sampling.num_nodes
        if num_nodes is None:
            return is_live, [self._or_spare(is_live, state) for state in states]
        order = nn.functional.pad(live_first(is_live), (0, num_nodes))[:num_nodes]
        numbers = torch.arange(num_nodes, device=is_live.device)
        counts = numbers < is_live.sum()
        return counts, [
            self._or_spare(counts, state.index_select(0, order.clamp(max=state.shape[0] - 1)))
            for state in states
        ]

    def _or_spare(self, is_live: Tensor, states: Tensor) -> Tensor:
        if states.dtype == torch.bool:
            return states & is_live
        return torch.where(_beside(is_live, states), states, self.rows[:1].detach())

    def mean_square(
        self, left: Tensor, right: Tensor, counts: Tensor, expected: Tensor | int
    ) -> Tensor:
        """As `Sampling.mean_square`, over the rows that count."""
        inner = left.shape[1:-1].numel()
        width = left.shape[-1] if self.sampling.reduction == "mean" else 1
        squares = torch.where(_beside(counts, left), left - right, 0).square()
        return squares.sum() / torch.as_tensor(expected * inner * width).clamp(min=1)


def live_first(is_live: Tensor) -> Tensor:
    """All places in random order, those that are live before all others."""
    keys = torch.rand(is_live.shape[0], device=is_live.device)
    return torch.where(is_live, keys, 2.0).argsort()


StaticLoss: TypeAlias = Callable[[Monoid, StaticStates], Tensor]


def associativity_loss(op: Monoid, states: StaticStates) -> Tensor:
    """The mean of |(a b) c - a (b c)|² over the triples of a tree."""
    found: StaticTriples | None
    if isinstance(states.plan, SuppliedPlan):
        found = supplied_triples(states.plan, states.fold)
    else:
        found = static_triples(states.plan, states.fold)
    if found is None:
        return states.rows.new_zeros(())
    is_left, is_right = found.is_left_node, found.is_right_node
    total = is_left.sum() + is_right.sum()
    candidates = is_left | is_right
    parts = (found.left, found.right, *found.of_left, *found.of_right)
    counts, chosen = states.chosen(candidates, *cast(tuple[Tensor, ...], parts), is_left, is_right)
    left, right, a, b, c, d, is_left, is_right = chosen
    # What is next to the gap between both children: a row itself, or the inner one of its two.
    inner_left = torch.where(_beside(is_left, b), b, left)
    inner_right = torch.where(_beside(is_right, c), c, right)
    middle = cast(Tensor, op(inner_left, inner_right))
    made = cast(
        Tensor,
        op(torch.cat([left, a, middle, inner_left]), torch.cat([inner_right, middle, d, right])),
    )
    one_left, one_right, other_left, other_right = made.unflatten(0, (4, -1)).unbind(0)
    expected = total * counts.sum() / candidates.sum().clamp(min=1)
    return states.mean_square(
        torch.cat([one_left, other_left]),
        torch.cat([one_right, other_right]),
        torch.cat([is_left, is_right]),
        expected,
    )


def commutativity_loss(op: Monoid, states: StaticStates) -> Tensor:
    """The mean of |a b - b a|² over the nodes of a tree."""
    levels = states.fold.levels
    left, right, made, is_live = (torch.cat(parts) for parts in zip(*levels, strict=True))
    counts, chosen = states.chosen(is_live, left, right, made)
    left, right, made = chosen
    return states.mean_square(made, cast(Tensor, op(right, left)), counts, counts.sum())


@dataclass(frozen=True)
class StaticElementLaw:
    """As `ElementLaw`, over the states of a static fold."""

    law: Law

    def __call__(self, op: Monoid, states: StaticStates) -> Tensor:
        """The loss."""
        rows, levels = states.rows, states.fold.levels
        everything = torch.cat([rows, *(cast(Tensor, level.made) for level in levels)])
        everywhere = torch.ones_like(rows[:, :1].flatten(1)[:, 0], dtype=torch.bool)
        is_live = torch.cat([everywhere, *(level.is_live for level in levels)])
        counts, (first,) = states.chosen(is_live, everything)
        others = [
            self._partners(is_live, everything, len(first)) for _ in range(self.law.arity - 1)
        ]
        elements = [element.flatten(0, -2) for element in (first, *others)]
        sides = self.law.sides(op, *elements)
        pairs = zip(*(tensors_of(side) for side in sides), strict=True)
        squares = [difference(left, right).square() for left, right in pairs]
        inner = rows.shape[1:-1].numel()
        counted = counts.unsqueeze(1).expand(-1, inner).reshape(-1)
        total = torch.stack(
            [torch.where(_beside(counted, sq), sq, 0).sum() for sq in squares]
        ).sum()
        count = counted.sum()
        if states.sampling.reduction == "mean":
            count = count * sum(square.shape[1:].numel() for square in squares)
        return total / count.clamp(min=1)

    @staticmethod
    def _partners(is_live: Tensor, everything: Tensor, count: int) -> Tensor:
        """Live states in random order, from the start again where there are too few."""
        numbers = torch.arange(count, device=is_live.device)
        return everything[live_first(is_live)[numbers % is_live.sum()]]


def consistency_loss(op: Monoid, states: StaticStates) -> Tensor:
    """The mean of |s - t|² over recombined sets, as `recombination.consistency_loss` has it.

    Both trees are drawn here: elements are put into random places of twice as many as a set may
    have, neighbours merge, and what has no neighbour passes.
    """
    rows, device = states.rows, states.rows.device
    num_sets = (states.plan.sizes.shape[0] + GROUPS_PER_SET - 1) // GROUPS_PER_SET
    sizes = torch.randint(MIN_SIZE, MAX_SIZE + 1, (num_sets, 1), device=device)
    num_different = torch.randint(2, MAX_DIFFERENT + 1, (num_sets, 1), device=device)
    places = torch.rand(num_sets, MAX_DIFFERENT, device=device) * rows.shape[0]
    candidates = places.long().clamp(max=rows.shape[0] - 1)
    numbers = torch.randint(0, 1 << 30, (num_sets, NUM_SLOTS), device=device) % num_different
    elements = candidates.gather(1, numbers)
    sides = [_merged(op, rows, elements, sizes) for _ in range(2)]
    inner = rows.shape[1:-1].numel()
    width = rows.shape[-1] if states.sampling.reduction == "mean" else 1
    return (sides[0] - sides[1]).square().sum() / (num_sets * inner * width)


def _merged(op: Monoid, rows: Tensor, elements: Tensor, sizes: Tensor) -> Tensor:
    """The first `sizes` elements of each set, merged over a random tree."""
    order = torch.rand(elements.shape, device=rows.device).argsort(1)
    held, is_held = elements.gather(1, order), order < sizes
    state = rows.index_select(0, held.flatten())
    present = is_held.flatten()
    for _ in range((NUM_SLOTS - 1).bit_length()):
        left, right = state.unflatten(0, (-1, 2)).unbind(1)
        has_left, has_right = present.unflatten(0, (-1, 2)).unbind(1)
        both = cast(Tensor, op(left, right))
        alone = torch.where(_beside(has_left, left), left, right)
        state = torch.where(_beside(has_left & has_right, both), both, alone.to(both.dtype))
        present = has_left | has_right
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


def _beside(mask: Tensor, states: Tensor) -> Tensor:
    """The mask with as many axes as the states."""
    return mask.reshape(-1, *(1 for _ in states.shape[1:]))
