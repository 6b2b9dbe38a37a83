"""From the host to the device in one transfer: plans are made on the host and folded elsewhere."""

from collections.abc import Sequence

import torch
from torch import Tensor

WITHOUT_WAITING = ("cuda",)
"""Devices that copy from pinned memory while the host moves on."""


def send(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """The tensors, all of one type, on the device."""
    if tensors[0].device == device or device.type == tensors[0].device.type == "cpu":
        return list(tensors)
    packed = torch.cat([each.flatten() for each in tensors])
    if packed.is_cpu and device.type in WITHOUT_WAITING:
        sent = packed.pin_memory().to(device, non_blocking=True)
    else:
        sent = packed.to(device)
    parts = sent.split([each.numel() for each in tensors])
    return [part.view(each.shape) for part, each in zip(parts, tensors, strict=True)]
