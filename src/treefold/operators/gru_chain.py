"""A GRU along packed rows as one function with a gradient, in compiled loops; float32 on CPUs."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from treefold.fold import PackedOrder
from treefold.operators.plain_cells import gru_step
from treefold.operators.second_order import differentiable_gradients
from treefold.operators.small_folds import is_small, one_thread
from treefold.operators.transforms import are_transforms_active


class ChainGRU(torch.autograd.Function):
    """The state after every row, for rows `[n, channels]` and start states `[groups, channels]`.

    A gradient that is to be differentiated again is taken through plain operations.
    """

    @staticmethod
    def forward(
        ctx: Any, packed: PackedOrder, rows: Tensor, start: Tensor, *parameters: Tensor
    ) -> Tensor:
        """All steps in one call."""
        from treefold.operators.gru_chain_compiled import run_along  # noqa: PLC0415 (optional)

        batch_sizes = packed.batch_sizes * (len(start) // packed.by_length.numel())
        with one_thread(is_small(rows.numel(), rows.shape[-1])):
            states, kept = run_along(batch_sizes, rows, start, parameters)
        ctx.save_for_backward(rows, start, states, kept, *parameters)
        ctx.batch_sizes, ctx.packed = batch_sizes, packed
        return states

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """All steps in one call, and then the weights in one multiplication each."""
        from treefold.operators.gru_chain_compiled import run_back_along  # noqa: PLC0415 (optional)

        rows, start, states, kept, *parameters = ctx.saved_tensors
        inputs = (rows, start, *parameters)
        if torch.is_grad_enabled() or are_transforms_active():
            with torch.enable_grad():
                plain = _plain_chain(ctx.packed, rows, start, parameters)
                return (None, *differentiable_gradients([plain], inputs, grads))
        with one_thread(is_small(rows.numel(), rows.shape[-1])):
            return (None, *run_back_along(ctx.batch_sizes, inputs, states, kept, grads[0]))


def chain_gru(
    packed: PackedOrder, rows: Tensor, start: Tensor, parameters: Sequence[Tensor]
) -> Tensor | None:
    """The state after every row; None where compiled loops cannot be had."""
    tensors = (rows, start, *parameters)
    in_reach = all(each.device.type == "cpu" and each.dtype == torch.float32 for each in tensors)
    if not in_reach or torch.is_autocast_enabled("cpu") or not _is_compiled():
        return None
    states: Tensor = ChainGRU.apply(packed, *tensors)  # type: ignore[no-untyped-call]
    return states


@cache
def _is_compiled() -> bool:
    try:
        import treefold.operators.gru_chain_compiled  # noqa: PLC0415, F401 (optional)
    except (ImportError, RuntimeError):
        return False
    return True


def _plain_chain(
    packed: PackedOrder, rows: Tensor, start: Tensor, parameters: Sequence[Tensor]
) -> Tensor:
    """The same states in plain operations."""
    state = start.view(packed.by_length.numel(), -1, start.shape[-1])
    made = []
    for step in rows.view(len(packed.rows), -1, rows.shape[-1]).split(packed.batch_sizes.tolist()):
        state = gru_step(step, state[: len(step)], *parameters)
        made.append(state)
    return torch.cat(made).view(rows.shape)
