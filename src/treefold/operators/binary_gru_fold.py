"""Binary-GRU over whole trees, as one function with a gradient.

All states live in one buffer: leaves first, then nodes in the order of the plan. On perfect levels
the rows that meet are a view of the nodes made last; elsewhere they are gathered once.
"""

from typing import Any

import torch
from torch import Tensor

from treefold.operators.binary_gru_loops import kept_shape, loops_for
from treefold.operators.binary_gru_work import Work
from treefold.operators.second_order import differentiable_gradients
from treefold.operators.workspace import Lease
from treefold.reduction import TreePlan


class FoldBinaryGRU(torch.autograd.Function):
    """The fold of `[rows, inner, channels]`: groups and nodes.

    Parameters are the weights and the biases of the cell, input side and hidden side, and the
    identity. A gradient that is to be differentiated again is taken through `Work.plain`.
    """

    @staticmethod
    def forward(
        ctx: Any, work: Work, x: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Level by level into one buffer."""
        plan, stacked = work.plan, (torch.cat(parameters[:2]), torch.cat(parameters[2:4]))
        shape = (plan.num_rows + plan.num_applications, *x.shape[1:])
        states_lease = None if work.shows_nodes else Lease(shape, x)
        states = x.new_empty(shape) if states_lease is None else states_lease.tensor
        torch.index_select(x, 0, work.leaves, out=states[: plan.num_rows])
        kept = Lease(kept_shape(2 * plan.num_applications, x), x) if work.keeps else None
        loops = loops_for(x, work.precision)
        loops.forward(work, (x, *stacked), states, kept.tensor if kept else None)
        groups = _collect(states, parameters[-1], plan)
        ctx.save_for_backward(x, *parameters)
        ctx.work, ctx.loops, ctx.leases = work, loops, (states_lease, kept)
        ctx.states, ctx.stacked = states, stacked
        ctx.set_materialize_grads(False)
        return groups, states[plan.num_rows :] if work.shows_nodes else None

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Level by level, back through the same buffer."""
        x, *parameters = ctx.saved_tensors
        work: Work = ctx.work
        if torch.is_grad_enabled():
            inputs = (x, *parameters)
            return (None, *differentiable_gradients(work.plain(*inputs), inputs, grads))
        plan, (_, kept) = work.plan, ctx.leases
        grad_groups, grad_nodes = grads
        lease = Lease(ctx.states.shape, x)
        grad_states = lease.tensor.zero_()
        if grad_nodes is not None:
            grad_states[plan.num_rows :] = grad_nodes
        grad_identity = _spread(grad_groups, grad_states, plan)
        grad_table, grad_weight, grad_bias = ctx.loops.backward(
            work, (x, *ctx.stacked), ctx.states, kept.tensor, grad_states
        )
        grad_leaves = grad_states[: plan.num_rows]
        if work.is_permutation:
            grad_x = torch.empty_like(x).index_copy_(0, work.leaves, grad_leaves)
        else:
            grad_x = torch.zeros_like(x).index_add_(0, work.leaves, grad_leaves)
        if work.shared:
            grad_x += grad_table
        return None, grad_x, *grad_weight.chunk(2), *grad_bias.chunk(2), grad_identity


def _collect(states: Tensor, identity: Tensor, plan: TreePlan) -> Tensor:
    """One row per group: its root, its only row, or the identity."""
    if len(states) == 0:
        return identity.expand(plan.num_groups, *states.shape[1:]).clone()
    groups = states.index_select(0, plan.group_places)
    if plan.num_empty:
        groups[plan.empty_groups] = identity
    return groups


def _spread(grad_groups: Tensor | None, grad_states: Tensor, plan: TreePlan) -> Tensor:
    """Add the groups' gradients to where they come from; the gradient of the identity."""
    channels = grad_states.shape[-1]
    if grad_groups is None:
        return grad_states.new_zeros(channels)
    if plan.num_empty == 0:
        grad_states.index_add_(0, plan.group_places, grad_groups)
        return grad_states.new_zeros(channels)
    is_empty = torch.zeros(plan.num_groups, 1, 1, dtype=torch.bool, device=grad_groups.device)
    is_empty[plan.empty_groups] = True
    if len(grad_states):
        grad_states.index_add_(0, plan.group_places, grad_groups.masked_fill(is_empty, 0))
    return grad_groups[plan.empty_groups].sum((0, 1))


def fold_binary_gru(work: Work, *tensors: Tensor) -> tuple[Tensor, Tensor | None]:
    """The groups and, if they are to be shown, the nodes: of rows `x` and five parameters."""
    result: tuple[Tensor, Tensor | None]
    if torch.is_autocast_enabled(tensors[0].device.type):  # precision is ours to choose
        with torch.autocast(tensors[0].device.type, enabled=False):
            result = FoldBinaryGRU.apply(work, *tensors)  # type: ignore[no-untyped-call]
    else:
        result = FoldBinaryGRU.apply(work, *tensors)  # type: ignore[no-untyped-call]
    return result
