"""Who runs through the levels of a Binary-GRU fold: compiled loops where they can be had, or torch.

Both work in the same buffers: states are leaves, then nodes in the order of the plan.
"""

from functools import cache
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from treefold.operators.binary_gru_kernel import (
    NUM_KEPT,
    NUM_PROJECTIONS,
    combine,
    combine_backward,
    doubled_new,
)
from treefold.operators.binary_gru_projection import Dense, Places, Projection
from treefold.operators.binary_gru_shared import Shared
from treefold.operators.binary_gru_work import Inputs, Run, Work
from treefold.operators.workspace import Lease


@runtime_checkable
class Loops(Protocol):
    """All levels forward, and all levels backward."""

    def forward(self, work: Work, inputs: Inputs, states: Tensor, kept: Tensor | None) -> None:
        """Make the nodes in `states`, and write what the gradients need into `kept`.

        `kept` is None if no gradient is to come.
        """
        ...

    def backward(
        self, work: Work, inputs: Inputs, states: Tensor, kept: Tensor, grad_states: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Add to `grad_states`; the gradients of the table, the weights and the biases.

        The table's is what reaches its projections, and is empty if there is no table.
        """
        ...


class TorchLoops:
    """The loops in torch's operations, for any device and type of number."""

    def forward(self, work: Work, inputs: Inputs, states: Tensor, kept: Tensor | None) -> None:
        """One multiplication and a dozen element-wise operations per run."""
        x, weight, bias = inputs
        bias, buffer = doubled_new(bias).view(NUM_PROJECTIONS, -1), _buffer(work, x)
        projection = _projection(work, x, doubled_new(weight), buffer.tensor)
        projection.start()
        scratch = Lease(kept_shape(work.rows_per_run if kept is None else 0, x), x)
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

    def backward(
        self, work: Work, inputs: Inputs, states: Tensor, kept: Tensor, grad_states: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The runs from the last to the first, through the same buffers."""
        x, weight, bias = inputs
        grad_bias, buffer = torch.zeros_like(bias), _buffer(work, x)
        projection = _projection(work, x, weight, buffer.tensor)
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
        grad_table = torch.zeros_like(x if work.shared else x[:0])
        projection.finish(grad_table)
        return grad_table, projection.grad_weight, grad_bias


def kept_shape(num_rows: int, x: Tensor) -> tuple[int, ...]:
    """The shape of what is kept for the gradients of so many rows like those of `x`."""
    return (num_rows, x.shape[1], NUM_KEPT, x.shape[2])


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


def loops_for(x: Tensor, precision: torch.dtype) -> Loops:
    """The fastest loops for rows like these, multiplied in this precision."""
    in_reach = x.device.type == "cpu" and x.dtype == precision == torch.float32
    return (in_reach and compiled_loops()) or TorchLoops()


@cache
def compiled_loops() -> Loops | None:
    """None without numba, without a multiplication to call, or with nowhere to keep the code."""
    try:
        from treefold.operators.binary_gru_compiled import CompiledLoops  # noqa: PLC0415 (optional)
    except (ImportError, RuntimeError):
        return None
    return CompiledLoops()
