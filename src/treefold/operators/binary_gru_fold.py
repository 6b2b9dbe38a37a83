"""Binary-GRU over whole trees, as one function with a gradient."""

from typing import Any

import torch
from torch import Tensor

from treefold.operators.binary_gru_loops import Loops
from treefold.operators.binary_gru_work import Parameters, Work
from treefold.operators.second_order import differentiable_gradients
from treefold.operators.small_folds import one_thread
from treefold.operators.transforms import are_transforms_active
from treefold.operators.workspace import frees_saved_tensors


class FoldBinaryGRU(torch.autograd.Function):
    """The fold of `[rows, *feature]`: groups and nodes.

    A gradient that is to be differentiated again, or batched, is taken through `Work.plain`.
    """

    @staticmethod
    def forward(
        ctx: Any, loops: Loops, work: Work, x: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The groups, and the nodes if they are to be shown."""
        feature = x.shape[1:]
        groups = x.new_empty(work.plan.num_groups, *feature)
        with one_thread(work.is_small):
            nodes, memory = loops.forward(
                work, _rows(work, x), Parameters(*parameters), _rows(work, groups)
            )
        ctx.save_for_backward(x, *parameters)
        ctx.work, ctx.loops, ctx.memory = work, loops, memory
        ctx.set_materialize_grads(False)
        return groups, None if nodes is None else nodes.view(len(nodes), *feature)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """By the loops that made it."""
        x, *parameters = ctx.saved_tensors
        work: Work = ctx.work
        if torch.is_grad_enabled() or are_transforms_active():
            inputs = (x, *parameters)
            with torch.enable_grad():
                outputs = work.plain(*inputs)
                return (None, None, *differentiable_gradients(outputs, inputs, grads))
        given = [None if grad is None else _rows(work, grad) for grad in grads]
        with one_thread(work.is_small):
            grad_x, *others = ctx.loops.backward(work, _rows(work, x), ctx.memory, *given)
        if frees_saved_tensors():
            ctx.memory = None
        return None, None, grad_x.view(x.shape), *others


def _rows(work: Work, x: Tensor) -> Tensor:
    """As the loops want them: contiguous, `[rows, inner, channels]`."""
    return x.contiguous().view(len(x), *work.row_shape)


def fold_binary_gru(loops: Loops, work: Work, *tensors: Tensor) -> tuple[Tensor, Tensor | None]:
    """The groups and, if they are to be shown, the nodes: of rows `x` and five parameters."""
    result: tuple[Tensor, Tensor | None]
    if torch.is_autocast_enabled(tensors[0].device.type):  # precision is ours to choose
        with torch.autocast(tensors[0].device.type, enabled=False):
            result = FoldBinaryGRU.apply(loops, work, *tensors)  # type: ignore[no-untyped-call]
    else:
        result = FoldBinaryGRU.apply(loops, work, *tensors)  # type: ignore[no-untyped-call]
    return result
