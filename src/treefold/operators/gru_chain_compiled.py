"""What a GRU chain asks of its compiled loops: memory, projections of rows, threads."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from treefold.operators.binary_gru_kernel import NUM_KEPT
from treefold.operators.compiled_threads import max_parts
from treefold.operators.kernels.compiling import tells_if_slow
from treefold.operators.kernels.gru_bias import bias_gradient, bias_of_kinds
from treefold.operators.kernels.gru_chain import run, run_back

NUM_PROJECTIONS = 3
"""Of a row, and of a state."""
MIN_NUMBERS = 1 << 14
"""How many numbers of state are worth another thread, over all steps."""


def run_along(
    batch_sizes: Tensor, rows: Tensor, start: Tensor, parameters: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """The state after every row, and what the gradients need."""
    weight_ih, weight_hh, bias_ih, bias_hh = parameters
    num_rows, channels = rows.shape
    from_rows, states = rows @ weight_ih.t(), torch.empty(num_rows, channels)
    kept = rows.new_empty(num_rows, NUM_KEPT * channels)
    with tells_if_slow("GRU"):
        run(
            _cuts(batch_sizes, channels),
            batch_sizes.numpy(),
            from_rows.numpy(),
            start.contiguous().numpy(),
            weight_hh.contiguous().numpy(),
            bias_of_kinds(bias_ih.contiguous().numpy(), bias_hh.contiguous().numpy()),
            states.numpy(),
            kept.numpy(),
            np.empty((len(start), NUM_PROJECTIONS * channels), np.float32),
        )
    return states, kept


def run_back_along(
    batch_sizes: Tensor,
    inputs: Sequence[Tensor],
    states: Tensor,
    kept: Tensor,
    grad: Tensor,
) -> tuple[Tensor, ...]:
    """The gradients of rows, start, weights and biases."""
    rows, start, weight_ih, weight_hh, *_ = inputs
    num_rows, channels = rows.shape
    cuts = _cuts(batch_sizes, channels)
    grad_states = grad.clone(memory_format=torch.contiguous_format)
    grad_start = start.new_zeros(start.shape)
    to_projections = rows.new_empty(num_rows, 2 * NUM_PROJECTIONS * channels)
    earlier = torch.empty_like(states)
    sums = np.zeros((cuts.size - 1, NUM_KEPT * channels), np.float32)
    with tells_if_slow("GRU, gradients"):
        run_back(
            cuts,
            batch_sizes.numpy(),
            weight_hh.contiguous().numpy(),
            start.contiguous().numpy(),
            states.numpy(),
            kept.numpy(),
            (grad_states.numpy(), grad_start.numpy(), to_projections.numpy()),
            earlier.numpy(),
            sums,
        )
    to_rows, to_states = to_projections.chunk(2, 1)
    to_bias = rows.new_empty(2, NUM_PROJECTIONS * channels)
    bias_gradient(sums.sum(0), to_bias.numpy())
    return (
        to_rows @ weight_ih,
        grad_start,
        to_rows.t() @ rows,
        to_states.t() @ earlier,
        *to_bias.unbind(),
    )


def _cuts(batch_sizes: Tensor, channels: int) -> np.ndarray:
    """Where groups are cut into parts of about as many rows each."""
    sizes = batch_sizes.numpy()
    num_groups, num_rows = int(sizes[0]), int(sizes.sum())
    worth = min(max_parts(), num_groups, num_rows * channels // MIN_NUMBERS)
    if worth < 2:
        return np.array([0, num_groups])
    lengths = np.searchsorted(-sizes, -np.arange(1, num_groups + 1), side="right")
    until = lengths.cumsum()
    shares = num_rows * np.arange(1, worth) / worth
    return np.unique([0, *(np.searchsorted(until, shares) + 1), num_groups])
