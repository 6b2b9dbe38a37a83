"""Invertible networks: what `Conjugated` carries an exact monoid through."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
        given, changed = self._halves(x)
        scale, shift = self._affine(given)
        return self._whole(given, torch.addcmul(shift, changed, scale.exp()))

    def inverse(self, y: Tensor) -> Tensor:
        """Undo `forward`."""
        given, changed = self._halves(y)
        scale, shift = self._affine(given)
        return self._whole(given, (changed - shift) * (-scale).exp())

    def _affine(self, given: Tensor) -> tuple[Tensor, Tensor]:
        hidden = F.gelu(F.linear(given, self._turned(self.inner.weight, 1), self.inner.bias))
        weight, bias = self._turned(self.outer.weight, 0), self._turned(self.outer.bias, 0)
        scale, shift = F.linear(hidden, weight, bias).chunk(2, -1)
        return torch.tanh(scale), shift  # scales within a factor e keep the inverse accurate

    # With `swap`, the perceptron sees the channels from the last to the first. Turning its weights
    # is cheaper than turning the rows.

    def _turned(self, weight: Tensor, dim: int) -> Tensor:
        if not self.swap:
            return weight
        if dim == 1:
            return weight.flip(1)
        turned: Tensor = weight.unflatten(0, (2, self.changed)).flip(1)
        return turned.flatten(0, 1)

    def _halves(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.swap:
            changed, given = x.split([self.changed, self.given], -1)
        else:
            given, changed = x.split([self.given, self.changed], -1)
        return given, changed

    def _whole(self, given: Tensor, changed: Tensor) -> Tensor:
        return torch.cat([changed, given] if self.swap else [given, changed], -1)


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
