"""Binary-GRU over whole trees, as one function with a gradient."""

from typing import Any

import torch
from torch import Tensor

from treefold.operators.binary_gru_loops import loops_for
from treefold.operators.binary_gru_work import Parameters, Work
from treefold.operators.second_order import differentiable_gradients


class FoldBinaryGRU(torch.autograd.Function):
    """The fold of `[rows, inner, channels]`: groups and nodes.

    A gradient that is to be differentiated again is taken through `Work.plain`.
    """

    @staticmethod
    def forward(
        ctx: Any, work: Work, x: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The groups, and the nodes if they are to be shown."""
        loops = loops_for(x, work.precision)
        groups, nodes, memory = loops.forward(work, x, Parameters(*parameters))
        ctx.save_for_backward(x, *parameters)
        ctx.work, ctx.loops, ctx.memory = work, loops, memory
        ctx.set_materialize_grads(False)
        return groups, nodes

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """By the loops that made it."""
        x, *parameters = ctx.saved_tensors
        work: Work = ctx.work
        if torch.is_grad_enabled():
            inputs = (x, *parameters)
            return (None, *differentiable_gradients(work.plain(*inputs), inputs, grads))
        found = ctx.loops.backward(work, x, Parameters(*parameters), ctx.memory, *grads)
        return (None, *found)


def fold_binary_gru(work: Work, *tensors: Tensor) -> tuple[Tensor, Tensor | None]:
    """The groups and, if they are to be shown, the nodes: of rows `x` and five parameters."""
    result: tuple[Tensor, Tensor | None]
    if torch.is_autocast_enabled(tensors[0].device.type):  # precision is ours to choose
        with torch.autocast(tensors[0].device.type, enabled=False):
            result = FoldBinaryGRU.apply(work, *tensors)  # type: ignore[no-untyped-call]
    else:
        result = FoldBinaryGRU.apply(work, *tensors)  # type: ignore[no-untyped-call]
    return result
