"""Transforms of an operator from outside: tracers, vmap and grad, and autocast."""

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.autograd import forward_ad

HALF_TYPES = (torch.bfloat16, torch.float16)


def are_transforms_active() -> bool:
    """Inside torch.func's vmap, grad or jvp, or forward-mode AD, which need plain operations."""
    return bool(torch._C._are_functorch_transforms_active()) or forward_ad._current_level >= 0


def is_traced(x: Tensor) -> bool:
    """True under torch.compile and torch.export, and for tensors that hold no values.

    No sizes can be read off such a tensor, and no compiled loop can be given its memory.
    """
    return torch.compiler.is_compiling() or x.is_meta or isinstance(x, FakeTensor)


def autocast_device(x: Tensor) -> str:
    """The device to ask about autocast, which knows nothing of the device meta."""
    return "cpu" if x.is_meta else x.device.type


def precisions(rows: Tensor) -> tuple[torch.dtype, torch.dtype]:
    """The types of states, and of factors: under autocast those may be half as wide."""
    states = torch.float32 if rows.dtype in HALF_TYPES else rows.dtype
    device = "cpu" if rows.is_meta else rows.device.type
    if rows.dtype != torch.float64 and torch.is_autocast_enabled(device):
        return states, torch.get_autocast_dtype(device)
    return states, rows.dtype
