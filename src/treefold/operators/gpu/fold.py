"""Folds off the CPU: one run per level, and as few operations as that takes.

All states are in one buffer: leaves, nodes, and the identity at its end. A state is projected as
soon as it is made, into the same place of another buffer, where the gates of its pair look it up:
nothing is gathered but the leaves and the groups. Gradients of projections are collected in a third
one, and multiplied with all states at once for the gradient of the weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from treefold.fold import TreePlan
from treefold.operators.engine.operations import differentiable_gradients
from treefold.operators.gpu.levels import Level, levels_of
from treefold.operators.gpu.second_layer import SecondLayer
from treefold.operators.transforms import are_transforms_active

Parameters = Sequence[Tensor | None]
Saved = tuple[Tensor, Tensor | None]
"""Weights as they are multiplied, and what the operator has made of them for all pairs."""


@dataclass(frozen=True)
class Work:
    """A fold of rows `[rows, inner, channels]`: leaf i is row `leaves[i]`."""

    plan: TreePlan
    leaves: Tensor
    is_permutation: bool
    factor_type: torch.dtype
    operator: type["BinaryGRULevels"] | type["GatedSelectionLevels"]
    gates: Any
    plain: Callable[..., Any]
    """Groups and nodes in plain operations, of rows, identity and parameters."""


class BinaryGRULevels:
    """Projections are six: reset, update and new, as input and as hidden state."""

    def __init__(self, work: Work, parameters: Parameters, _: object, saved: Saved | None) -> None:
        self.gates = work.gates
        weight_ih, weight_hh, bias_ih, bias_hh = (each for each in parameters if each is not None)
        if saved is None:
            self.weight = torch.cat([weight_ih, weight_hh]).to(work.factor_type)
            self.bias = torch.cat([bias_ih, bias_hh]).to(work.factor_type)
        else:
            self.weight = saved[0]
        self.saved: Saved = (self.weight, None)

    def forward(self, level: Level, projections: Tensor, states: Tensor) -> None:
        """Make the level's nodes."""
        self.gates.forward(level, projections, states)

    def backward(self, level: Level, projections: Tensor, states: Tensor, *grads: Tensor) -> None:
        """Take their gradients back to their children."""
        self.gates.backward(level, projections, states, *grads)

    def gradients(self, weight: Tensor, bias: Tensor) -> list[Tensor | None]:
        """The gradients of parameters, from those of the projection."""
        return [*weight.chunk(2), *bias.chunk(2)]


class GatedSelectionLevels:
    """Projections are the hidden layer, as first and as second argument."""

    def __init__(
        self, work: Work, parameters: Parameters, levels: list[Level], saved: Saved | None
    ) -> None:
        self.gates = work.gates
        weight, bias, *others = parameters
        assert weight is not None
        assert bias is not None
        self.weight, self.bias = weight.to(work.factor_type), bias.to(work.factor_type)
        self.second = SecondLayer(others, levels, self.weight, saved)
        self.saved: Saved = (self.second.weight, self.second.products)

    def forward(self, level: Level, projections: Tensor, states: Tensor) -> None:
        """Make the level's nodes."""
        second = self.second
        factors, products = second.factors(level), second.rows_of(level, second.products)
        self.gates.hidden(level, projections, factors)
        torch.bmm(factors, second.weight.mT, out=products)
        self.gates.blend(level, products, second.bias, states)

    def backward(
        self, level: Level, projections: Tensor, states: Tensor, grads: Tensor, to: Tensor
    ) -> None:
        """Take their gradients back to their children."""
        second, factors = self.second, self.second.factors(level)
        products, grad, again = (
            second.rows_of(level, each)
            for each in (second.products, second.grad_products, second.again)
        )
        self.gates.blend_backward(level, products, second.bias, states, grads, grad)
        torch.bmm(grad, second.weight, out=factors)
        self.gates.hidden_backward(level, projections, factors, again, to)

    def gradients(self, weight: Tensor, bias: Tensor) -> list[Tensor | None]:
        """The gradients of parameters, from those of the projection."""
        return [weight, bias, *self.second.gradients(bias.dtype)]


class FoldLevels(torch.autograd.Function):
    """Groups and nodes, of rows, identity and parameters."""

    @staticmethod
    def forward(
        ctx: Any, work: Work, x: Tensor, identity: Tensor, *parameters: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Level by level; projections are saved, gates are not."""
        num_leaves, (_, inner, channels) = work.plan.num_rows, x.shape
        end = num_leaves + work.plan.num_applications
        levels = levels_of(work.plan, inner)
        operator = work.operator(work, parameters, levels, None)
        states = x.new_empty(end + 1, inner, channels)
        torch.index_select(x, 0, work.leaves, out=states[:num_leaves])
        states[end] = identity
        width = len(operator.weight)
        projections = x.new_empty(end, inner, width, dtype=work.factor_type)
        _project_leaves(work, operator, x, states, projections)
        for level in levels:
            operator.forward(level, projections, states)
            _project(operator, level.projected(states), level.projected(projections))
        places = work.plan.tables.groups.remainder(end + 1)  # of empty groups, the identity
        ctx.save_for_backward(
            x, identity, *parameters, states, projections, places, *operator.saved
        )
        ctx.work = work
        ctx.set_materialize_grads(False)
        return states.index_select(0, places), states[num_leaves:end]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Level by level; gates are computed again."""
        x, identity, *parameters, states, projections, places, weight, made = ctx.saved_tensors
        work: Work = ctx.work
        if torch.is_grad_enabled() or are_transforms_active():
            inputs = (x, identity, *parameters)
            with torch.enable_grad():
                return (None, *differentiable_gradients(work.plain(*inputs), inputs, grads))
        levels, num_leaves = levels_of(work.plan, x.shape[1]), work.plan.num_rows
        operator = work.operator(work, parameters, levels, (weight, made))
        to_states = torch.zeros_like(states)
        grad_groups, grad_nodes = grads
        if grad_nodes is not None:
            to_states[num_leaves:-1] = grad_nodes
        if grad_groups is not None:
            to_states.index_add_(0, places, grad_groups)
        to = torch.zeros_like(projections)
        with torch.autocast(x.device.type, enabled=False):
            for level in reversed(levels):
                _project_back(operator, level.projected(to), level.projected(to_states))
                operator.backward(level, projections, states, to_states, to)
            found = _gradients_of_leaves(work, operator, x, states, to_states, to)
        return (None, *found)


def _project(operator: Any, rows: Tensor, out: Tensor) -> None:
    """Multiply rows by the weights."""
    if len(rows):
        rows = rows.flatten(0, 1).to(out.dtype)
        torch.addmm(operator.bias, rows, operator.weight.t(), out=out.flatten(0, 1))


def _project_back(operator: Any, grad: Tensor, rows: Tensor) -> None:
    """Add to the gradients of rows what their projections have got."""
    if len(rows):
        grad, rows = grad.flatten(0, 1), rows.flatten(0, 1)
        if grad.dtype == rows.dtype:
            rows.addmm_(grad, operator.weight)
        else:
            rows.add_(grad @ operator.weight)


def _num_meeting(plan: TreePlan) -> int:
    """The leaves that meet; groups of one row are behind them."""
    return plan.num_rows - plan.num_singles if plan.levels else 0


def _is_shared(work: Work, x: Tensor) -> bool:
    """True if rows repeat: they are projected once."""
    return len(x) < _num_meeting(work.plan)


def _project_leaves(work: Work, operator: Any, x: Tensor, states: Tensor, out: Tensor) -> None:
    count = _num_meeting(work.plan)
    if not _is_shared(work, x):
        _project(operator, states[:count], out[:count])
        return
    table = out.new_empty(len(x), *out.shape[1:])
    _project(operator, x, table)
    torch.index_select(table, 0, work.leaves[:count], out=out[:count])


def _gradients_of_leaves(
    work: Work, operator: Any, x: Tensor, states: Tensor, to_states: Tensor, to: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of rows, identity and parameters, once all levels are done."""
    count, num_leaves, end = _num_meeting(work.plan), work.plan.num_rows, len(states) - 1
    table, to_table = states[:count], to[:count]
    if _is_shared(work, x):
        table, to_table = x, x.new_zeros(len(x), *to.shape[1:])
        to_table.index_add_(0, work.leaves[:count], to[:count].to(x.dtype))
        to_table = to_table.to(to.dtype)
    else:
        _project_back(operator, to_table, to_states[:count])
    grad_x = x.new_empty(x.shape) if work.is_permutation else x.new_zeros(x.shape)
    # Adding rows one by one is slow: only where some may be the same.
    put = grad_x.index_copy_ if work.is_permutation else grad_x.index_add_
    put(0, work.leaves, to_states[:num_leaves])
    if _is_shared(work, x):
        _project_back(operator, to_table, grad_x)
    weight = _product(to_table, table)
    if work.plan.levels:
        weight = _product(to[num_leaves:], states[num_leaves:end], weight)
    bias = to.sum((0, 1), dtype=x.dtype)
    grad_identity = to_states[end]
    grad_identity = grad_identity.sum(0) if len(grad_identity) > 1 else grad_identity.view(-1)
    return grad_x, grad_identity, *operator.gradients(weight, bias)


def _product(grad: Tensor, rows: Tensor, before: Tensor | None = None) -> Tensor:
    """The gradient of the weights from gradients of projections, and the rows projected."""
    grad, rows = grad.flatten(0, 1).t(), rows.flatten(0, 1)
    if before is None:
        return (grad @ rows.to(grad.dtype)).to(rows.dtype)
    if grad.dtype == rows.dtype:
        return before.addmm_(grad, rows)
    return before.add_(grad @ rows.to(grad.dtype))
