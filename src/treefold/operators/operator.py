"""What a learned operator is: a module with an identity and a forward of two arguments."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from treefold.shapes import Float


class Operator(nn.Module, ABC):
    """A learned a ⊕ b on vectors of `channels` numbers, with its identity.

    Subclasses are finished operators. They act on the last axis and leave all others open, so that
    `op(a, b)` works on `[n, channels]`, on towers `[n, towers, channels]`, and on anything else.
    """

    identity: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        if channels < 1:
            raise ValueError(f"{channels} channels; expected at least 1")
        self.channels = channels

    @abstractmethod
    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row."""

    @abstractmethod
    def reset_parameters(self) -> None:
        """Draw all parameters anew."""

    def learned_identity(self) -> nn.Parameter:
        """An identity that starts at zero and is learned, for subclasses that want one."""
        return nn.Parameter(torch.zeros(self.channels))

    def extra_repr(self) -> str:
        """What `print(op)` says between the brackets."""
        return str(self.channels)
