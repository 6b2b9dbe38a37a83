"""Detection of the transforms of torch.func."""

import torch


def are_transforms_active() -> bool:
    """Inside torch.func's vmap, grad or jvp, which see through plain operations only."""
    return bool(torch._C._are_functorch_transforms_active())
