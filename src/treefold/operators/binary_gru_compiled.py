"""Binary-GRU's loops, compiled, on as many threads as torch has; for float32 on CPUs."""

from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from treefold.kernels.binary_gru_ends import Cell, Ends, Gradients
from treefold.kernels.binary_gru_fold import Kept, fold, fold_back
from treefold.kernels.binary_gru_levels import MIN_NUMBERS, Tree
from treefold.kernels.binary_gru_rooms import Size
from treefold.operators.binary_gru_kernel import NUM_KEPT, NUM_PROJECTIONS
from treefold.operators.binary_gru_work import Folded, Parameters, Work
from treefold.operators.compiled_threads import max_parts
from treefold.operators.workspace import Lease


class _Memory(NamedTuple):
    """What the way back needs of the way forward; the arrays live as long as the lease."""

    ends: Ends
    tree: Tree
    kept: Kept
    lease: Lease


class CompiledLoops:
    """What `TorchLoops` does, with gates in one pass over memory and no calls in between."""

    def forward(self, work: Work, x: Tensor, parameters: Parameters) -> Folded:
        """One compiled call from rows to groups."""
        plan, size = work.plan, _size(work, x)
        shown = x.new_empty(work.num_states, *work.row_shape) if work.shows_nodes else None
        memory = _memory(work, x, shown)
        groups, room = x.new_empty(plan.num_groups, *work.row_shape), Lease((size.num_forward,), x)
        fold(
            x.numpy(),
            Cell(*[_array(parameter) for parameter in parameters]),
            *(memory.ends, memory.tree, memory.kept, groups.numpy()),
            *(room.tensor.numpy(), size, _threads_together(size)),
        )
        return Folded(groups, None if shown is None else shown[plan.num_rows :], memory)

    def backward(
        self,
        work: Work,
        x: Tensor,
        parameters: Parameters,
        memory: _Memory,
        grad_groups: Tensor | None,
        grad_nodes: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """One compiled call from the gradients of groups and nodes to all others."""
        size, none = _size(work, x), np.empty((0, *work.row_shape), np.float32)
        room = Lease((size.num_backward(work.num_states),), x)
        stacked = NUM_PROJECTIONS * size.channels
        grad_x, grad_weight = torch.empty_like(x), x.new_empty(stacked, size.channels)
        grad_bias, grad_identity = x.new_empty(stacked), x.new_empty(size.channels)
        fold_back(
            *(x.numpy(), memory.ends, memory.tree, memory.kept),
            none if grad_groups is None else _array(grad_groups),
            none if grad_nodes is None else _array(grad_nodes),
            Gradients(*[each.numpy() for each in (grad_x, grad_weight, grad_bias, grad_identity)]),
            *(room.tensor.numpy(), size, _threads_together(size)),
        )
        return grad_x, *grad_weight.chunk(2), *grad_bias.chunk(2), grad_identity


def _size(work: Work, x: Tensor) -> Size:
    """For as many threads as are worth it."""
    num_rows, (inner, channels) = work.rows_per_run, work.row_shape
    numbers = max(1, inner * channels)
    num_parts = max_parts() if num_rows * numbers >= 4 * MIN_NUMBERS else 1
    # A part has its share of a run, or all of one that is too small to be cut.
    share = 2 * -(-num_rows // (2 * num_parts))
    per_part = min(num_rows, max(share, 4 * MIN_NUMBERS // numbers + 2))
    return Size(num_parts, num_rows, per_part, len(x) if work.shared else 0, inner, channels)


def _threads_together(size: Size) -> int:
    """How many threads share a multiplication: one where each part has its own."""
    return 1 if size.num_parts > 1 else torch.get_num_threads()


def _memory(work: Work, x: Tensor, shown: Tensor | None) -> _Memory:
    """Uninitialized; the states are in memory of their own if their nodes are shown."""
    plan, (inner, channels) = work.plan, work.row_shape
    shapes = (
        (NUM_PROJECTIONS * channels, channels),
        (2 * plan.num_applications if work.keeps else 0, inner, NUM_KEPT * channels),
        (work.num_states if shown is None else 0, inner, channels),
    )
    lease = Lease((sum(map(prod, shapes)),), x)
    block, arrays = lease.tensor.numpy(), []
    for shape in shapes:
        arrays.append(block[: prod(shape)].reshape(shape))
        block = block[prod(shape) :]
    if shown is not None:
        arrays[-1] = shown.numpy()
    leaves = work.leaves.numpy()
    ends = Ends(leaves, plan.group_places.numpy(), work.is_permutation)
    table_rows = leaves if work.shared else leaves[:0]
    tree = Tree(_runs(work), plan.children.numpy(), table_rows)
    return _Memory(ends, tree, Kept(*arrays), lease)


def _runs(work: Work) -> np.ndarray:
    runs = [(first, count, -1 if start is None else start) for first, count, start in work.runs]
    return np.array(runs, np.int64).reshape(-1, 3)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.contiguous().numpy()
