"""Tracers and transforms, which see plain operations only."""

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.autograd import forward_ad


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
