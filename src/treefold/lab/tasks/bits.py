"""Integers as binary digits, and back."""

import torch
from torch import Tensor

from treefold.shapes import Int, Shaped


def to_bits(numbers: Int[Tensor, " *n"], bits: int) -> Int[Tensor, " *n bits"]:
    """Binary digits, the lowest first."""
    places = torch.arange(bits, device=numbers.device)
    return (numbers.unsqueeze(-1) >> places) & 1


def from_bits(digits: Shaped[Tensor, " *n bits"]) -> Int[Tensor, " *n"]:
    """The integers with these binary digits, the lowest first."""
    places = torch.arange(digits.shape[-1], device=digits.device)
    return (digits.long() << places).sum(-1)
