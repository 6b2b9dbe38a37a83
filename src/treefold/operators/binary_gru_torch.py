"""Binary-GRU's loops in torch's operations, for any device and type of number.

All states live in one buffer: leaves first, then nodes in the order of the plan. On perfect levels
the rows that meet are a view of the nodes made last; elsewhere they are gathered once.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from treefold.fold import TreePlan
from treefold.operators.binary_gru_kernel import (
    NUM_KEPT,
    NUM_PROJECTIONS,
    combine,
    combine_backward,
    doubled_new,
)
from treefold.operators.binary_gru_projection import Dense, Places, Projection
from treefold.operators.binary_gru_shared import Shared
from treefold.operators.binary_gru_work import Parameters, Run, Work
from treefold.operators.workspace import Lease


class _Memory(NamedTuple):
    """What the way back needs of the way forward."""

    weight: Tensor
    bias: Tensor
    states: Tensor
    kept: Lease | None
    states_lease: Lease | None
    """None if the states are shown, and so are not ours to use again."""


class TorchLoops:
    """One multiplication and a dozen element-wise operations per run."""

    def can_multiply(self, precision: torch.dtype, channels: int) -> bool:
        """In whatever precision torch does."""
        return True

    def runs_per_chunk(self, keeps: bool) -> int:
        """Few, as each costs a dozen calls; more where there is little else to wait for."""
        return 1 if keeps else 4

    def forward(
        self, work: Work, x: Tensor, parameters: Parameters, groups: Tensor
    ) -> tuple[Tensor | None, _Memory]:
        """Gather the leaves, make the nodes, collect the groups."""
        plan, shape = work.plan, (work.num_states, *work.row_shape)
        weight, bias = torch.cat(parameters[:2]), torch.cat(parameters[2:4])
        lease = None if work.shows_nodes else Lease(shape, x)
        states = x.new_empty(shape) if lease is None else lease.tensor
        torch.index_select(x, 0, work.leaves, out=states[: plan.num_rows])
        kept = Lease(_kept_shape(work, 2 * plan.num_applications), x) if work.keeps else None
        _make_nodes(work, x, weight, bias, states, None if kept is None else kept.tensor)
        _collect(states, parameters.identity, plan, groups)
        nodes = states[plan.num_rows :] if work.shows_nodes else None
        return nodes, _Memory(weight, bias, states, kept, lease)

    def backward(
        self,
        work: Work,
        x: Tensor,
        memory: _Memory,
        grad_groups: Tensor | None,
        grad_nodes: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """The runs from the last to the first, through the same buffers."""
        num_rows, lease = work.plan.num_rows, Lease(memory.states.shape, x)
        grad_states = lease.tensor.zero_()
        if grad_nodes is not None:
            grad_states[num_rows:] = grad_nodes
        grad_identity = _spread(grad_groups, grad_states, work.plan)
        grad_x = torch.zeros_like(x)
        grad_weight, grad_bias = _take_back(work, x, memory, grad_states, grad_x)
        # Adding rows one by one is slow: only where some may be the same.
        put = grad_x.index_copy_ if work.is_permutation else grad_x.index_add_
        put(0, work.leaves, grad_states[:num_rows])
        return grad_x, *grad_weight.chunk(2), *grad_bias.chunk(2), grad_identity


def _make_nodes(
    work: Work, x: Tensor, weight: Tensor, bias: Tensor, states: Tensor, kept: Tensor | None
) -> None:
    """Behind the leaves in `states`, and what the gradients need into `kept`, if it is there."""
    bias, buffer = doubled_new(bias).view(NUM_PROJECTIONS, -1), _buffer(work, x)
    projection = _projection(work, x, doubled_new(weight), buffer.tensor)
    projection.start()
    scratch = Lease(_kept_shape(work, work.rows_per_run if kept is None else 0), x)
    for run in work.runs:
        places = _places(work, run)
        rows = _rows(states, places)
        in_kept = scratch.tensor if kept is None else kept[2 * run.first_node :]
        combine(
            projection.project(rows, places),
            bias,
            rows,
            _nodes(work, states, run),
            in_kept[: rows.shape[0]],
        )


def _take_back(
    work: Work, x: Tensor, memory: _Memory, grad_states: Tensor, grad_x: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of weights and biases; those of states, and of a table, are added to."""
    assert memory.kept is not None
    states, kept = memory.states, memory.kept.tensor
    grad_bias, buffer = torch.zeros_like(memory.bias), _buffer(work, x)
    projection = _projection(work, x, memory.weight, buffer.tensor)
    projection.start_backward()
    for run in reversed(work.runs):
        places = _places(work, run)
        rows, grad_rows = _rows(states, places), _rows(grad_states, places)
        combine_backward(
            _nodes(work, grad_states, run),
            rows,
            kept[2 * run.first_node :][: rows.shape[0]],
            grad_rows,
            projection.room(places),
            grad_bias,
        )
        projection.backward(rows, grad_rows, places)
        if isinstance(places, Tensor):  # rows were gathered, so their gradients are a copy
            grad_states.index_copy_(0, places, grad_rows)
    projection.finish(grad_x)
    return projection.grad_weight, grad_bias


def _collect(states: Tensor, identity: Tensor, plan: TreePlan, groups: Tensor) -> None:
    """One row per group: its root, its only row, or the identity."""
    if len(states):
        torch.index_select(states, 0, plan.tables.groups.clamp(min=0), out=groups)
    if plan.num_empty:
        groups[(plan.tables.groups < 0)] = identity


def _spread(grad_groups: Tensor | None, grad_states: Tensor, plan: TreePlan) -> Tensor:
    """Add the groups' gradients to where they come from; the gradient of the identity."""
    if grad_groups is None:
        return grad_states.new_zeros(grad_states.shape[-1])
    places, grad_identity = plan.tables.groups, grad_groups[(plan.tables.groups < 0)].sum((0, 1))
    if plan.num_empty:
        grad_groups = grad_groups.masked_fill((places < 0).view(-1, 1, 1), 0)
    if len(grad_states):
        grad_states.index_add_(0, places.clamp(min=0), grad_groups)
    return grad_identity


def _kept_shape(work: Work, num_rows: int) -> tuple[int, ...]:
    inner, channels = work.row_shape
    return (num_rows, inner, NUM_KEPT, channels)


def _buffer(work: Work, x: Tensor) -> Lease:
    """Room for projections: those of a table, and those of a run."""
    num_rows = work.rows_per_run + (len(x) if work.shared else 0)
    return Lease((num_rows, x.shape[1], NUM_PROJECTIONS, x.shape[2]), x)


def _projection(work: Work, x: Tensor, weight: Tensor, buffer: Tensor) -> Projection:
    """Who multiplies."""
    weight = weight.to(work.precision)
    return Shared(weight, buffer, x, work.leaves) if work.shared else Dense(weight, buffer)


def _places(work: Work, run: Run) -> Places:
    if run.first_row is not None:
        return slice(run.first_row, run.first_row + 2 * run.num_pairs)
    return work.plan.children[run.first_node : run.first_node + run.num_pairs].flatten()


def _rows(states: Tensor, places: Places) -> Tensor:
    """A view where rows lie side by side, else a copy."""
    return states[places] if isinstance(places, slice) else states.index_select(0, places)


def _nodes(work: Work, states: Tensor, run: Run) -> Tensor:
    return states[work.plan.num_rows + run.first_node :][: run.num_pairs]
