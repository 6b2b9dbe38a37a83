"""Invertible networks: what `Conjugated` carries an exact monoid through."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.operators.engine.operations import Operation, can_compute, compiled
from treefold.saving import Saved
from treefold.shapes import Float


class Coupling(nn.Module):
    """One half of the channels, scaled and shifted by a perceptron of the other half."""

    def __init__(self, channels: int, hidden_channels: int, swap: bool) -> None:
        super().__init__()
        self.given, self.changed = channels // 2, channels - channels // 2
        self.swap = swap
        self.inner = nn.Linear(self.given, hidden_channels)
        self.outer = nn.Linear(hidden_channels, 2 * self.changed)

    def reset_parameters(self) -> None:
        """Reset the perceptron, its last layer small: the coupling starts near the identity."""
        self.inner.reset_parameters()
        self.outer.reset_parameters()
        with torch.no_grad():
            self.outer.weight.mul_(0.1)
            self.outer.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Scale and shift."""
        return self._change(x, False)

    def inverse(self, y: Tensor) -> Tensor:
        """Undo `forward`."""
        return self._change(y, True)

    def _change(self, x: Tensor, inverse: bool) -> Tensor:
        inner, outer = self.inner, self.outer
        parameters = [inner.weight, inner.bias, outer.weight, outer.bias]
        if self.swap:
            # The perceptron sees the channels from the last to the first. Turning its weights is
            # cheaper than turning the rows.
            parameters[0] = parameters[0].flip(1)
            for place in (2, 3):
                turned = parameters[place].unflatten(0, (2, self.changed)).flip(1)
                parameters[place] = turned.flatten(0, 1)
        if not can_compute(x, *parameters):
            return _plain(x, *parameters, self.swap, inverse)[0]
        saves = torch.is_grad_enabled() and any(each.requires_grad for each in (x, *parameters))
        return _COUPLING.call(x, *parameters, self.swap, inverse, saves)[0]


def _plain(
    x: Tensor, inner: Tensor, inner_bias: Tensor, outer: Tensor, outer_bias: Tensor,
    *settings: Any,
) -> list[Tensor]:  # fmt: skip
    """One layer in plain operations."""
    swap, inverse, *_ = settings
    given_first = x.shape[-1] // 2
    if swap:
        changed, given = x.split([x.shape[-1] - given_first, given_first], -1)
    else:
        given, changed = x.split([given_first, x.shape[-1] - given_first], -1)
    hidden = F.gelu(F.linear(given, inner, inner_bias))
    scale, shift = F.linear(hidden, outer, outer_bias).chunk(2, -1)
    scale = torch.tanh(scale)  # scales within a factor e keep the inverse accurate
    if inverse:
        made = (changed - shift) * (-scale).exp()
    else:
        made = torch.addcmul(shift, changed, scale.exp())
    return [torch.cat([made, given] if swap else [given, made], -1)]


def _empty(x: Tensor, inner: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    width = inner.shape[0] + others[1].shape[0] // 2
    num_saved = x.numel() // x.shape[-1] if others[-1] else 0
    return x.new_empty(x.shape), x.new_empty(num_saved, width)


_COUPLING = compiled(Operation("coupling", 5, 0, 1, _empty, _plain))


class CouplingFlow(Saved, nn.Module):
    """A bijection of `channels` numbers: couplings that take turns with the two halves."""

    def __init__(
        self, channels: int, num_layers: int = 4, hidden_channels: int | None = None
    ) -> None:
        super().__init__()
        if channels < 2:
            raise ValueError(f"{channels} channel cannot be cut in halves; expected 2 or more")
        if num_layers < 1:
            raise ValueError(f"{num_layers} layers; expected at least 1")
        hidden_channels = 2 * channels if hidden_channels is None else hidden_channels
        self.layers = nn.ModuleList(
            Coupling(channels, hidden_channels, swap=number % 2 == 1)
            for number in range(num_layers)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all couplings."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Float[Tensor, " *n channels"]) -> Float[Tensor, " *n channels"]:
        """There."""
        for layer in self.layers:
            x = layer(x)
        return x

    def inverse(self, y: Float[Tensor, " *n channels"]) -> Float[Tensor, " *n channels"]:
        """And back."""
        for layer in reversed(self.layers):
            y = layer.inverse(y)  # type: ignore[operator]
        return y
