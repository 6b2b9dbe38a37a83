"""The levels of a plan, and gates in plain torch that do one at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from treefold.fold import TreePlan
from treefold.operators.plain_cells import gru_gates


@dataclass(frozen=True)
class Level:
    """Pairs that meet at once; places are those in [leaves, nodes], counted without inner axes."""

    first: int
    """The first row of pairs that are neighbours; -1 if they are in `children`."""
    children: Tensor
    node: int
    num_pairs: int
    num_projected: int
    """The first ones of the nodes, which may meet again."""
    inner: int
    is_tree: bool
    """No state of the plan meets twice."""

    @property
    def are_neighbours(self) -> bool:
        """Pairs need not be looked up."""
        return self.first >= 0

    @property
    def num_rows(self) -> int:
        """Pairs, once for each inner row."""
        return self.num_pairs * self.inner

    def pairs(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Left and right rows, a view where they are neighbours."""
        if self.are_neighbours:
            pairs = rows[self.first : self.first + 2 * self.num_pairs]
            left, right = pairs.view(self.num_pairs, 2, *rows.shape[1:]).unbind(1)
            return left, right
        return rows.index_select(0, self.children[:, 0]), rows.index_select(0, self.children[:, 1])

    def add(self, rows: Tensor, left: Tensor, right: Tensor) -> None:
        """Add to left and right rows."""
        if self.are_neighbours:
            for part, grad in zip(self.pairs(rows), (left, right), strict=True):
                part.add_(grad)
            return
        rows.index_add_(0, self.children[:, 0], left.to(rows.dtype))
        rows.index_add_(0, self.children[:, 1], right.to(rows.dtype))

    def nodes(self, rows: Tensor) -> Tensor:
        """The rows of the level's nodes."""
        return rows[self.node : self.node + self.num_pairs]

    def projected(self, rows: Tensor) -> Tensor:
        """Those of nodes that may meet again."""
        return rows[self.node : self.node + self.num_projected]


def levels_of(plan: TreePlan, inner: int) -> list[Level]:
    """The levels in order; nothing is read from the plan's tensors."""
    levels, start, node = [], 0, plan.num_rows
    ends = plan.num_singles + plan.root_groups.numel()
    is_tree = 2 * plan.num_applications + ends == plan.num_rows + plan.num_applications
    for level, after in zip(plan.levels, [*plan.levels[1:], None], strict=False):
        made, count = node - plan.num_rows, level.num_pairs
        again = 0  # of its nodes, how many may meet again
        if after is not None:
            in_play = 2 * after.num_pairs + after.num_waiting
            again = count if after.take is not None else in_play
        first = start if level.take is None else -1
        children = plan.children[made : made + count]
        levels.append(Level(first, children, node, count, min(count, again), inner, is_tree))
        start, node = node, node + count
    return levels


def _vjp(
    function: Callable[..., Tensor], given: Sequence[Tensor], grad: Tensor
) -> Sequence[Tensor]:
    with torch.enable_grad():
        inputs = [each.detach().requires_grad_() for each in given]
        return torch.autograd.grad(function(*inputs), inputs, grad, allow_unused=True)


class TorchBinaryGRU:
    """Binary-GRU's gates: a dozen operations per level."""

    def forward(self, level: Level, projections: Tensor, states: Tensor) -> None:
        """Write the level's nodes into `states`."""
        made = self._gates(*level.pairs(projections), *level.pairs(states))
        level.nodes(states).copy_(made)

    def backward(
        self, level: Level, projections: Tensor, states: Tensor, grads: Tensor, to: Tensor
    ) -> None:
        """Add to `grads` of states, and to those of projections."""
        given = (*level.pairs(projections), *level.pairs(states))
        to_pa, to_pb, to_a, to_b = _vjp(self._gates, given, level.nodes(grads))
        level.add(to, to_pa, to_pb)
        level.add(grads, to_a, to_b)

    def _gates(self, pa: Tensor, pb: Tensor, a: Tensor, b: Tensor) -> Tensor:
        (first_a, second_a), (first_b, second_b) = (p.to(a.dtype).chunk(2, -1) for p in (pa, pb))
        return (gru_gates(first_a, second_b, b) + gru_gates(first_b, second_a, a)) / 2


class TorchGatedSelection:
    """Gated selection's hidden layer and its gates: a dozen operations each per level."""

    def __init__(self, selects: bool, writes: bool, stretch: float) -> None:
        self.selects, self.writes, self.stretch = selects, writes, stretch

    def hidden(self, level: Level, projections: Tensor, out: Tensor) -> None:
        """Write the factors of the second layer's products, `[products, rows, hidden]`."""
        made = self._both(*level.pairs(projections))
        difference, added = made.flatten(1, -2)
        for part, factor in zip(out, self._order(difference, added), strict=True):
            part.copy_(factor)

    def hidden_backward(
        self, level: Level, projections: Tensor, grad: Tensor, again: Tensor, to: Tensor
    ) -> None:
        """Add to `to` the gradients of projections; write difference and sum to `again`."""
        given = level.pairs(projections)
        again.copy_(self._both(*given).flatten(1, -2))
        to_both = torch.zeros_like(again)
        if self.selects:
            to_both[0] = grad[0]
        if self.writes:
            to_both[1] = grad[-2] + grad[-1]
        shape = (2, *given[0].shape[:-1], grad.shape[-1])
        level.add(to, *_vjp(self._both, given, to_both.view(shape)))

    def blend(self, level: Level, products: Tensor, bias: Tensor | None, states: Tensor) -> None:
        """Write the level's nodes into `states`."""
        a, b = level.pairs(states)
        level.nodes(states).copy_(self._gates(*self._wide(products, bias, a), a, b))

    def blend_backward(
        self, level: Level, products: Tensor, bias: Tensor | None, states: Tensor,
        grads: Tensor, to: Tensor,
    ) -> None:  # fmt: skip
        """Add to `grads` of states, write those of products."""
        a, b = level.pairs(states)
        given = (*self._wide(products, bias, a), a, b)
        *to_products, to_a, to_b = _vjp(self._gates, given, level.nodes(grads))
        for part, found in zip(to, to_products, strict=True):
            part.copy_(found.reshape(part.shape))
        level.add(grads, to_a, to_b)

    def _order(self, difference: Tensor, added: Tensor) -> list[Tensor]:
        return [difference] * self.selects + [added, added] * self.writes

    def _both(self, pa: Tensor, pb: Tensor) -> Tensor:
        (first_a, second_a), (first_b, second_b) = (p.chunk(2, -1) for p in (pa, pb))
        ab, ba = F.gelu(first_a + second_b), F.gelu(first_b + second_a)
        return torch.stack([ab - ba, ab + ba])

    def _wide(self, products: Tensor, bias: Tensor | None, like: Tensor) -> list[Tensor]:
        wide = [each.to(like.dtype).view(like.shape) for each in products]
        if bias is not None:
            wide[-2:] = [x + part for x, part in zip(wide[-2:], bias.chunk(2), strict=True)]
        return wide

    def _gates(self, *given: Tensor) -> Tensor:
        *products, a, b = given
        made = torch.lerp(b, a, self._gate(products[0])) if self.selects else (a + b) / 2
        if self.writes:
            made = torch.lerp(products[-1].tanh(), made, self._gate(products[-2]))
        return made

    def _gate(self, x: Tensor) -> Tensor:
        return ((1 + 2 * self.stretch) * x.sigmoid() - self.stretch).clamp(0, 1)
