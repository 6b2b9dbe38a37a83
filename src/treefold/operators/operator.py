"""Learned operators: modules with an identity and a forward of two arguments."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from treefold.saving import Saved
from treefold.shapes import Float


def reset_parts(module: nn.Module) -> None:
    """Reset every part that can be reset, or else the parts of it."""
    for part in module.children():
        reset = getattr(part, "reset_parameters", None)
        if reset is None:
            reset_parts(part)
        else:
            reset()


class Operator(Saved, nn.Module, ABC):
    """A learned a ⊕ b on vectors of `channels` numbers, with its identity.

    Subclasses are finished operators. They act on the last axis and leave all others open, so that
    `op(a, b)` works on `[n, channels]`, on towers `[n, towers, channels]`, and on anything else.
    """

    identity: Tensor
    takes_half = False
    """True if `a` and `b` may be bfloat16 or float16 where the parameters are not."""

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

    def reset_parameters(self) -> None:
        """Draw the parameters of all parts again, and set the identity to zero.

        An operator with other parameters of its own overrides this: it calls
        `super().reset_parameters()`, and then says how its own begin.
        """
        own = [name for name, _ in self.named_parameters(recurse=False) if name != "identity"]
        if own and type(self).reset_parameters is Operator.reset_parameters:
            raise NotImplementedError(
                f"{type(self).__name__} has parameters of its own, {', '.join(own)}, and nothing "
                "says how they begin; give it a `reset_parameters` that calls "
                "`super().reset_parameters()` and then sets them"
            )
        reset_parts(self)
        if isinstance(self.identity, nn.Parameter):
            nn.init.zeros_(self.identity)

    def learned_identity(self) -> nn.Parameter:
        """An identity that starts at zero and is learned, for subclasses that want one."""
        return nn.Parameter(torch.zeros(self.channels))

    def extra_repr(self) -> str:
        """The number of channels, for `print(op)`."""
        return str(self.channels)
