"""Binary-GRU's loops, compiled, on as many threads as torch has; for float32 on CPUs."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor

from treefold.kernels.binary_gru_fold import (
    MIN_NUMBERS,
    NUM_ROOMS,
    Rooms,
    Sums,
    Tree,
    fold,
    fold_backward,
)
from treefold.operators.binary_gru_kernel import NUM_KEPT, NUM_PROJECTIONS
from treefold.operators.binary_gru_work import Inputs, Work
from treefold.operators.compiled_threads import max_parts
from treefold.operators.gru_bias import bias_gradient, bias_of_kinds
from treefold.operators.workspace import Lease


class CompiledLoops:
    """What `TorchLoops` does, with gates in one pass over memory and no calls between levels."""

    def forward(
        self,
        work: Work,
        inputs: Inputs,
        states: Tensor,
        kept: Tensor | None,
    ) -> None:
        """Make the nodes in `states`, and write what the gradients need into `kept`."""
        x, weight, bias = inputs
        space = _Space(work, x)
        fold(
            states.numpy(),
            _tree(work),
            _table(work, x),
            weight.numpy(),
            bias_of_kinds(bias.numpy()),
            _joined(states.new_empty(0, 1, NUM_KEPT, 1) if kept is None else kept),
            space.rooms,
            space.num_threads,
        )

    def backward(
        self,
        work: Work,
        inputs: Inputs,
        states: Tensor,
        kept: Tensor,
        grad_states: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Add to `grad_states`; the gradients of the table, the weights and the biases."""
        x, weight, _ = inputs
        space, channels = _Space(work, x), x.shape[2]
        grad_table = torch.zeros_like(x if work.shared else x[:0])
        grad_weight = np.empty((space.num_parts, *weight.shape), np.float32)
        grad_bias = np.zeros((space.num_parts, NUM_KEPT * channels), np.float32)
        num_waiting = np.zeros(space.num_parts, np.int64)
        fold_backward(
            states.numpy(),
            grad_states.numpy(),
            _tree(work),
            _table(work, x),
            weight.numpy(),
            _joined(kept),
            space.rooms,
            Sums(grad_weight, grad_bias, space.waiting, num_waiting, num_waiting == 0),
            grad_table.numpy(),
            space.num_threads,
        )
        to_bias = bias_gradient(grad_bias[0])
        return grad_table, torch.from_numpy(grad_weight[0]), torch.from_numpy(to_bias)


class _Space:
    """The memory that loops work in, and for how many threads."""

    def __init__(self, work: Work, x: Tensor) -> None:
        num_rows, (inner, channels) = work.rows_per_run, work.row_shape
        numbers = max(1, inner * channels)
        self.num_parts = max_parts() if num_rows * numbers >= 4 * MIN_NUMBERS else 1
        self.num_threads = 1 if self.num_parts > 1 else torch.get_num_threads()
        # A part has its share of a run, or all of one that is too small to be cut.
        share = 2 * -(-num_rows // (2 * self.num_parts))
        per_part = min(num_rows, max(share, 4 * MIN_NUMBERS // numbers + 2))
        projected = per_part + (len(x) if work.shared else 0)
        shapes = (
            (self.num_parts, projected, inner, NUM_PROJECTIONS * channels),
            (NUM_ROOMS, num_rows, inner, channels),
            (self.num_parts, per_part, inner, channels),
        )
        self._lease = Lease((sum(map(prod, shapes)),), x)
        projections, rows, self.waiting = _cut(self._lease.tensor.numpy(), shapes)
        self.rooms = Rooms(projections, rows, *np.empty((2, num_rows), np.int64))


def _cut(block: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> Iterator[np.ndarray]:
    """Arrays of these shapes, one behind the other."""
    start = 0
    for shape in shapes:
        yield block[start : start + prod(shape)].reshape(shape)
        start += prod(shape)


def _tree(work: Work) -> Tree:
    runs = [(first, count, -1 if start is None else start) for first, count, start in work.runs]
    table_rows = work.leaves.numpy() if work.shared else np.empty(0, np.int64)
    return Tree(np.array(runs, np.int64).reshape(-1, 3), work.plan.children.numpy(), table_rows)


def _table(work: Work, x: Tensor) -> np.ndarray:
    return x.numpy() if work.shared else np.empty((0, *work.row_shape), np.float32)


def _joined(kept: Tensor) -> np.ndarray:
    """With the last two axes as one."""
    return kept.flatten(2).numpy()
