"""Binary-GRU's arithmetic by hand: gates and their gradients, in place.

A row's six projections come from one multiplication with the stacked weights, in this order:

    input side: reset, update, new   |   hidden side: reset, update, new

For a pair (a, b), the cell GRU(a, b) takes a's input side and b's hidden side, GRU(b, a) the
others, and a ⊕ b is their mean. What the gradients need is kept per cell: reset, update, new,
hidden new. Neighbouring rows are pairs: rows are `[2 pairs, inner, channels]`, outcomes
`[pairs, inner, channels]`; projections and what is kept have an axis more, of length 6 and 4,
before the last.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from treefold.operators.workspace import Lease

NUM_PROJECTIONS = 6
NUM_KEPT = 4


class Projections(NamedTuple):
    """Projections of rows, without their biases: `[rows, inner, 6, channels]`.

    Row i has `source[where[i]]`, or `source[i]` if `where` is None.
    """

    source: Tensor
    where: Tensor | None


def doubled_new(projection: Tensor) -> Tensor:
    """Weights or biases, stacked for the six projections, with both of new's doubled."""
    parts = projection.unflatten(0, (NUM_PROJECTIONS, -1))
    factors = projection.new_tensor([1, 1, 2, 1, 1, 2])
    doubled: Tensor = (parts * factors.view(-1, *[1] * (parts.dim() - 1))).flatten(0, 1)
    return doubled


def combine(
    projections: Projections, bias: Tensor, rows: Tensor, out: Tensor, kept: Tensor
) -> None:
    """Write a ⊕ b into `out`, and what its gradient needs into `kept`.

    Both are overwritten, and so are projections that lie side by side. Projections and biases
    called new come doubled, because tanh x = 2 σ(2x) - 1 takes a third of the time of `torch.tanh`
    on CPUs.
    """
    source, where = projections
    if where is None:
        _combine(source.add_(bias), rows, out, kept)
        return
    lease = Lease((where.numel(), *source.shape[1:]), source)
    torch.index_select(source, 0, where, out=lease.tensor)
    _combine(lease.tensor.add_(bias), rows, out, kept)


def combine_backward(
    grad: Tensor,
    rows: Tensor,
    kept: Tensor,
    grad_rows: Tensor,
    grad_projections: Projections,
    grad_bias: Tensor,
) -> None:
    """Add to `grad_rows` what reaches the rows directly, and to `grad_bias`.

    `grad_projections`, none of them doubled, are written where they lie side by side, and added to
    at the places they are gathered from.
    """
    source, where = grad_projections
    lease = None if where is None else Lease((where.numel(), *source.shape[1:]), source)
    found = source if lease is None else lease.tensor
    _combine_backward(grad, rows, kept, grad_rows, found)
    flat = found.view(-1, grad_bias.numel())
    grad_bias.unsqueeze(0).addmm_(flat.new_ones(1, flat.shape[0]), flat)
    if where is not None:
        source.index_add_(0, where, found)


def _combine(projections: Tensor, rows: Tensor, out: Tensor, kept: Tensor) -> None:
    a, b = _pairs(rows)
    (a_gates, _, a_hidden_gates, a_hidden_new), (b_gates, _, b_hidden_gates, b_hidden_new) = (
        torch.split_with_sizes(side, (2, 1, 2, 1), -2) for side in _pairs(projections)
    )
    gates, new, hidden_new = torch.split_with_sizes(kept, (2, 1, 1), -2)
    (first_gates, second_gates), (first_hidden, second_hidden) = _pairs(gates), _pairs(hidden_new)

    torch.add(a_gates, b_hidden_gates, out=first_gates)
    torch.add(b_gates, a_hidden_gates, out=second_gates)
    reset = gates.sigmoid_().narrow(-2, 0, 1)
    torch.mul(b_hidden_new, 0.5, out=first_hidden)
    torch.mul(a_hidden_new, 0.5, out=second_hidden)
    torch.addcmul(projections.narrow(-2, 2, 1), reset, hidden_new, value=2, out=new)
    new.sigmoid_().mul_(2).sub_(1)

    first, second = _pairs(kept)
    torch.lerp(first.select(-2, 2), b, first.select(-2, 1), out=out)
    out.lerp_(torch.lerp(second.select(-2, 2), a, second.select(-2, 1)), 0.5)


def _combine_backward(
    grad: Tensor, rows: Tensor, kept: Tensor, grad_rows: Tensor, grad_projections: Tensor
) -> None:
    reset, update, new, hidden_new = kept.unbind(-2)
    to_reset, to_update, to_new, _, _, to_hidden_new = grad_projections.unbind(-2)
    (a, b), (first_update, second_update) = _pairs(rows), _pairs(update)
    (first_new, second_new), (first_to_update, second_to_update) = _pairs(new), _pairs(to_update)

    grad = grad * 0.5
    grad_a, grad_b = _pairs(grad_rows)
    grad_b.addcmul_(grad, first_update)
    grad_a.addcmul_(grad, second_update)

    blocked, both = to_reset, grad.unsqueeze(1)  # room that is not needed yet
    torch.addcmul(both, both, _cells(update), value=-1, out=_cells(blocked))
    torch.sub(b, first_new, out=first_to_update)
    torch.sub(a, second_new, out=second_to_update)
    to_update.mul_(blocked).mul_(update)

    # through tanh: blocked (1 - new²)
    torch.mul(blocked, new, out=to_new)
    torch.addcmul(blocked, to_new, new, value=-1, out=to_new)

    torch.mul(to_new, reset, out=to_reset)
    _exchange(to_reset, to_hidden_new)
    to_reset.mul_(hidden_new)
    to_reset.addcmul_(to_reset, reset, value=-1)
    _exchange(grad_projections.narrow(-2, 0, 2), grad_projections.narrow(-2, 3, 2))


def _exchange(found: Tensor, into: Tensor) -> None:
    """What reaches a cell's hidden side belongs to the other row of its pair."""
    (first, second), (into_a, into_b) = _pairs(found), _pairs(into)
    into_b.copy_(first)
    into_a.copy_(second)


def _cells(rows: Tensor) -> Tensor:
    """`[2 pairs, ...]` as `[pairs, 2, ...]`."""
    return rows.view(rows.shape[0] // 2, 2, *rows.shape[1:])


def _pairs(rows: Tensor) -> tuple[Tensor, ...]:
    """The first rows of all pairs, and the second ones, without copying."""
    return _cells(rows).unbind(1)
