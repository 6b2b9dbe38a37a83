"""A GRU along packed rows as a compiled operation, where it can be used."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from treefold.fold import PackedOrder
from treefold.operators.engine.operations import Operation, can_compute, compiled
from treefold.operators.plain_cells import gru_step
from treefold.operators.transforms import precisions


def chain_gru(
    packed: PackedOrder, rows: Tensor, start: Tensor, parameters: Sequence[Tensor]
) -> Tensor | None:
    """The state after every row, from rows `[n, channels]`; None where torch has to run it."""
    state_type, factor_type = precisions(rows)
    tensors = (rows.to(state_type), start, *parameters)
    if factor_type == torch.float16 or not can_compute(*tensors):
        return None
    batch_sizes = packed.batch_sizes * (len(start) // packed.by_length.numel())
    half = factor_type == torch.bfloat16
    saves = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    return _CHAIN.call(*tensors, batch_sizes, half, saves)[0]


def _empty(rows: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    num_saved = rows.shape[0] if others[-1] else 0
    return rows.new_empty(rows.shape), rows.new_empty(num_saved, 4 * rows.shape[1])


def _plain(rows: Tensor, state: Tensor, *others: Any) -> list[Tensor]:
    """The same states, from the arguments of the operation."""
    *parameters, batch_sizes, _, _ = others
    made = []
    for step in rows.split(batch_sizes.tolist()):
        state = gru_step(step, state[: len(step)], *parameters)
        made.append(state)
    return [torch.cat(made)]


_CHAIN = compiled(Operation("gru_chain", 6, 1, 1, _empty, _plain))
