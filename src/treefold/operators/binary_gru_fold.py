"""Binary-GRU over whole trees, forward and backward, one multiplication per chunk of a level.

All states live in one buffer: leaves first, then nodes in the order of the plan. On perfect levels
the rows that meet are a view of the nodes made last; elsewhere they are gathered once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor

from treefold.operators.binary_gru_arithmetic import arithmetic_for
from treefold.operators.binary_gru_kernel import NUM_KEPT, NUM_PROJECTIONS
from treefold.operators.binary_gru_projection import Dense, Projection, Run
from treefold.operators.binary_gru_shared import Shared
from treefold.operators.workspace import Lease
from treefold.reduction import TreePlan

CHUNK = 1024 * 128
"""Numbers of state per run of pairs, so that a run's projections stay in cache."""

PlainFold: TypeAlias = Callable[..., tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Work:
    """What is folded, apart from the numbers: leaf i is row `leaves[i]` of the input.

    `shared` says that the input is a table with fewer rows than there are leaves. Multiplications
    are done in `precision`. `plain` is the same fold in differentiable operations.
    `is_permutation` says that every row of the input is one leaf; `shows_nodes` that somebody wants
    the nodes, whose memory then is not ours to use again.
    """

    plan: TreePlan
    leaves: Tensor
    shared: bool
    precision: torch.dtype
    plain: PlainFold
    is_permutation: bool
    shows_nodes: bool

    def runs(self, pairs_per_run: int) -> Iterator[Run]:
        """The meetings in order, cut into runs that stay in cache."""
        made, start = 0, 0
        for level in self.plan.levels:
            addresses = None
            if level.take is not None:
                addresses = self.plan.children[made : made + level.num_pairs].flatten()
            for low in range(0, level.num_pairs, pairs_per_run):
                high = min(low + pairs_per_run, level.num_pairs)
                rows: slice | Tensor = slice(start + 2 * low, start + 2 * high)
                if addresses is not None:
                    rows = addresses[2 * low : 2 * high]
                yield Run(slice(made + low, made + high), rows)
            start = self.plan.num_rows + made
            made += level.num_pairs

    def num_buffered(self, x: Tensor) -> int:
        """How many rows' projections are in memory at once, besides those of a table."""
        return 2 * min(pairs_per_run(x), self.plan.num_applications)

    def projection(self, x: Tensor, weight: Tensor, buffer: Tensor) -> Projection:
        """Who multiplies."""
        weight = weight.to(self.precision)
        return Shared(weight, buffer, x, self.leaves) if self.shared else Dense(weight, buffer)

    def buffer(self, x: Tensor) -> Lease:
        """Room for projections."""
        num_rows = self.num_buffered(x) + (len(x) if self.shared else 0)
        return Lease((num_rows, x.shape[1], NUM_PROJECTIONS, x.shape[2]), x)


def pairs_per_run(x: Tensor) -> int:
    """How many pairs of rows like those of `x` make a run."""
    return max(1, CHUNK // max(1, prod(x.shape[1:])))


class FoldBinaryGRU(torch.autograd.Function):
    """The fold of `[rows, inner, channels]`: groups and nodes.

    A gradient that is to be differentiated again is taken through `Work.plain`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        identity: Tensor,
        work: Work,
        keeps: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Level by level into one buffer; `keeps` says that a gradient is to come."""
        plan = work.plan
        shape = (plan.num_rows + plan.num_applications, *x.shape[1:])
        states_lease = None if work.shows_nodes else Lease(shape, x)
        states = x.new_empty(shape) if states_lease is None else states_lease.tensor
        torch.index_select(x, 0, work.leaves, out=states[: plan.num_rows])
        nodes = states[plan.num_rows :]
        arithmetic, buffer = arithmetic_for(x), work.buffer(x)
        weight_, bias_ = arithmetic.prepare(weight, bias)
        projection = work.projection(x, weight_, buffer.tensor)
        projection.start()
        # Without a gradient to come, what is kept of a run is overwritten by the next.
        kept_rows = 2 * plan.num_applications if keeps else work.num_buffered(x)
        lease = Lease((kept_rows, x.shape[1], NUM_KEPT, x.shape[2]), x)
        kept = lease.tensor
        runs = list(work.runs(pairs_per_run(x)))
        for run in runs:
            rows = _rows(states, run)
            first = 2 * run.nodes.start if keeps else 0
            arithmetic.combine(
                projection.project(rows, run),
                bias_,
                rows,
                nodes[run.nodes],
                kept[first : first + rows.shape[0]],
            )
        groups = identity.expand(plan.num_groups, *x.shape[1:]).clone()
        if plan.num_singles:
            singles = states[plan.num_rows - plan.num_singles : plan.num_rows]
            groups.index_copy_(0, plan.single_groups, singles)
        groups.index_copy_(0, plan.root_groups, nodes.index_select(0, plan.root_nodes))
        ctx.save_for_backward(x, weight, bias, identity, states, kept)
        ctx.work, ctx.runs, ctx.leases = work, runs, (states_lease, lease)
        ctx.set_materialize_grads(False)
        return groups, nodes if work.shows_nodes else None

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """Level by level, back through the same buffer."""
        x, weight, bias, identity, states, kept = ctx.saved_tensors
        work: Work = ctx.work
        if torch.is_grad_enabled():
            return (*_plain_backward(work, (x, weight, bias, identity), grads), None, None)
        plan = work.plan
        grad_groups, grad_nodes = grads
        lease = Lease(states.shape, states)
        grad_states = lease.tensor.zero_()
        grad_identity = torch.zeros_like(identity)
        if grad_nodes is not None:
            grad_states[plan.num_rows :] = grad_nodes
        if grad_groups is not None:
            if plan.num_singles:
                singles = slice(plan.num_rows - plan.num_singles, plan.num_rows)
                grad_states[singles] = grad_groups.index_select(0, plan.single_groups)
            to_roots = grad_groups.index_select(0, plan.root_groups)
            grad_states[plan.num_rows :].index_add_(0, plan.root_nodes, to_roots)
            if plan.num_empty:
                empty = grad_groups[plan.empty_groups]
                grad_identity = empty.sum_to_size(1, *[1] * (x.dim() - 2), x.shape[-1]).view(-1)

        arithmetic, buffer = arithmetic_for(x), work.buffer(x)
        projection = work.projection(x, weight, buffer.tensor)
        projection.start_backward()
        grad_bias = arithmetic.bias_room(bias)
        for run in reversed(ctx.runs):
            rows, grad_rows = _rows(states, run), _rows(grad_states, run)
            arithmetic.combine_backward(
                grad_states[plan.num_rows :][run.nodes],
                rows,
                kept[2 * run.nodes.start : 2 * run.nodes.stop],
                grad_rows,
                projection.room(run),
                grad_bias,
            )
            projection.backward(rows, grad_rows, run)
            if isinstance(run.rows, Tensor):  # rows were gathered, so their gradients are a copy
                grad_states.index_copy_(0, run.rows, grad_rows)

        grad_leaves = grad_states[: plan.num_rows]
        if work.is_permutation:
            grad_x = torch.empty_like(x).index_copy_(0, work.leaves, grad_leaves)
        else:
            grad_x = torch.zeros_like(x).index_add_(0, work.leaves, grad_leaves)
        projection.finish(grad_x)
        grad_bias = arithmetic.bias_gradient(grad_bias)
        return grad_x, projection.grad_weight, grad_bias, grad_identity, None, None


def _rows(states: Tensor, run: Run) -> Tensor:
    """The rows of a run: a view where they lie side by side, else a copy."""
    return states[run.rows] if isinstance(run.rows, slice) else states.index_select(0, run.rows)


def fold_binary_gru(
    x: Tensor, weight: Tensor, bias: Tensor, identity: Tensor, work: Work
) -> tuple[Tensor, Tensor | None]:
    """The groups and, if they are to be shown, the nodes of the fold of `x`."""
    tensors = (x, weight, bias, identity)
    keeps = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    inputs = (*tensors, work, keeps)
    result: tuple[Tensor, Tensor | None]
    if torch.is_autocast_enabled(x.device.type):  # precision is ours to choose
        with torch.autocast(x.device.type, enabled=False):
            result = FoldBinaryGRU.apply(*inputs)  # type: ignore[no-untyped-call]
    else:
        result = FoldBinaryGRU.apply(*inputs)  # type: ignore[no-untyped-call]
    return result


def _plain_backward(
    work: Work, inputs: tuple[Tensor, ...], grads: tuple[Tensor | None, ...]
) -> tuple[Tensor | None, ...]:
    outputs = work.plain(*inputs)
    given = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(
        torch.autograd.grad(
            [out for out, _ in given],
            wanted,
            [grad for _, grad in given],
            create_graph=True,
            allow_unused=True,
        )
    )
    return tuple(next(found) if tensor.requires_grad else None for tensor in inputs)
