"""Gradients that can be differentiated again, for functions whose own backward cannot."""

from collections.abc import Sequence

import torch
from torch import Tensor


def differentiable_gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradient by each input, from outputs in plain operations; None where none is wanted."""
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
