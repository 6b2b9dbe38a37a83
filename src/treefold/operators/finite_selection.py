"""Finite selection: gated selection whose states are codes of -1 and 1, merged exactly."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.operators.operator import Operator
from treefold.shapes import Float

WITHOUT_FLOAT64 = ("mps",)
_LARGEST = 8.0
"""Weights are cut off here before they become whole numbers."""


class FiniteSelection(Operator):
    """The operator a ⊕ b = k (s a + (1 - s) b) + (1 - k) n on codes, vectors of -1 and 1.

    As in `GatedSelection`, the gates k (keep) and s (select) and the new value n come from both
    arguments through one hidden layer, here of rectified linear units; each channel also sees
    itself. `anneal` leads from real numbers to codes: with `slope` 1 states are numbers and gates
    are stretched sigmoids; as it grows, states approach -1 and 1, and gates 0 and 1. Once `hard`,
    they are exactly that, in training with straight-through gradients.

    A hard operator is evaluated in whole numbers: weights are rounded to a fixed point, and all
    sums of them stay below 2^53, where float64 adds without rounding. A merge is therefore the
    same code on every machine, in every batch, on any number of threads. Real numbers that a hard
    operator is given, such as elements, count as the codes of their signs.

    Commutative by construction. The identity is formal: the zero vector is no code, and whatever
    meets it stays as it is.
    """

    identity: Tensor

    def __init__(
        self, channels: int, hidden_channels: int | None = None, *, stretch: float = 0.1
    ) -> None:
        super().__init__(channels)
        if not stretch >= 0:
            raise ValueError(f"stretch is {stretch}; expected 0 or more")
        hidden_channels = channels if hidden_channels is None else hidden_channels
        self.stretch = stretch
        self.slope, self.noise, self.hard = 1.0, 0.0, False
        self.fraction_bits = _fraction_bits(channels, hidden_channels)
        self.hidden = nn.Linear(channels, 2 * hidden_channels)
        self.select = nn.Linear(hidden_channels, channels, bias=False)
        self.keep_and_new = nn.Linear(hidden_channels, 2 * channels)
        # Of a - b for the selecting gate, of a b for the keeping one, of a + b and a b for new.
        self.own = nn.Parameter(torch.zeros(4, channels))
        self.register_buffer("identity", torch.zeros(channels), persistent=False)

    def reset_parameters(self) -> None:
        """Draw the parameters again; states are real numbers again."""
        for layer in (self.hidden, self.select, self.keep_and_new):
            layer.reset_parameters()
        nn.init.zeros_(self.own)
        self.anneal()

    def anneal(self, slope: float = 1.0, noise: float = 0.0, hard: bool = False) -> None:
        """Set the slope (1 or more), the noise on what is rounded, and whether to round.

        Noise is added in training only, and not once states are hard.
        """
        if not (1 <= slope < math.inf and 0 <= noise < math.inf):
            raise ValueError(
                f"slope is {slope} and noise {noise}; expected a slope of 1 or more, and no "
                "negative noise"
            )
        self.slope, self.noise, self.hard = float(slope), float(noise), bool(hard)

    def get_extra_state(self) -> Tensor:
        """The progress of annealing, for checkpoints."""
        state = torch.tensor([self.slope, self.noise, self.hard], dtype=torch.float64)
        return state.view(torch.int64)  # no float: the type of parameters is another matter

    def set_extra_state(self, state: Tensor) -> None:
        """Take over how far annealing was."""
        slope, noise, hard = state.view(torch.float64).tolist()
        self.anneal(slope, noise, bool(hard))

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row."""
        exact = self.hard and not self.training
        merged = self._merge_codes(a, b) if exact else self._merge_numbers(a, b)
        return torch.where(_is_identity(b), a, torch.where(_is_identity(a), b, merged))

    def code(self, x: Float[Tensor, " *n channels"]) -> Float[Tensor, " *n channels"]:
        """The state that stands for an element: of a hard operator, the signs; else `x` itself.

        The identity is its own code.
        """
        return self._through(_signs(x), x)

    def _merge_codes(self, a: Tensor, b: Tensor) -> Tensor:
        """Merge in whole numbers; float64 holds them all without rounding."""
        one = 2.0**self.fraction_bits
        x, y = _wide(_signs(a)), _wide(_signs(b))
        weight, bias = self._whole(self.hidden.weight), self._whole(self.hidden.bias)
        x_first, x_second = F.linear(x, weight, bias).chunk(2, -1)
        y_first, y_second = F.linear(y, weight, bias).chunk(2, -1)
        xy, yx = F.relu(x_first + y_second), F.relu(y_first + x_second)
        own = one * self._whole(self.own)
        select = F.linear(xy - yx, self._whole(self.select.weight)) + own[0] * (x - y)
        both, bias = self._whole(self.keep_and_new.weight), self._whole(self.keep_and_new.bias)
        keep, new = F.linear(xy + yx, both, one * bias).chunk(2, -1)
        keep, new = keep + own[1] * (x * y), new + own[2] * (x + y) + own[3] * (x * y)
        # Where the gate is undecided, the larger of both: exchanging them must change nothing.
        chosen = torch.where(select > 0, x, torch.where(select < 0, y, torch.maximum(x, y)))
        return torch.where(keep >= 0, chosen, _signs(new)).to(a.dtype).to(a.device)

    def _merge_numbers(self, a: Tensor, b: Tensor) -> Tensor:
        x, y = self._number(a), self._number(b)
        weight, bias = self._rounded(self.hidden.weight), self._rounded(self.hidden.bias)
        x_first, x_second = F.linear(x, weight, bias).chunk(2, -1)
        y_first, y_second = F.linear(y, weight, bias).chunk(2, -1)
        xy, yx = F.relu(x_first + y_second), F.relu(y_first + x_second)
        own = self._rounded(self.own).to(x.dtype)
        # Under autocast, layers give another type of number.
        select = F.linear(xy - yx, self._rounded(self.select.weight)).to(x.dtype)
        both = self._rounded(self.keep_and_new.weight), self._rounded(self.keep_and_new.bias)
        keep, new = F.linear(xy + yx, *both).to(x.dtype).chunk(2, -1)
        keep, new = keep + own[1] * (x * y), new + own[2] * (x + y) + own[3] * (x * y)
        # `lerp` is exact at both ends.
        chosen = torch.lerp(y, x, self._gate(select + own[0] * (x - y)))
        new = (self.slope * self._noisy(new)).tanh()
        return torch.lerp(self._through(_signs(new), new), chosen, self._gate(keep))

    def _number(self, x: Tensor) -> Tensor:
        """`x`, drawn towards -1 and 1, which stay where they are, the more the larger the slope."""
        if self.slope > 1:
            x = (self._noisy(x) * (self.slope - 1)).tanh() / math.tanh(self.slope - 1)
        return self._through(_signs(x), x)

    def _gate(self, x: Tensor) -> Tensor:
        gate = (self.slope * self._noisy(x)).sigmoid()
        gate = ((1 + 2 * self.stretch) * gate - self.stretch).clamp(0, 1)
        return self._through((x >= 0).to(x.dtype), gate)

    def _noisy(self, x: Tensor) -> Tensor:
        if not self.training or self.hard or not self.noise:
            return x
        return x + self.noise * torch.randn_like(x)

    def _through(self, rounded: Tensor, x: Tensor) -> Tensor:
        """`x`, or once hard the rounded value, with the gradient of `x`."""
        return x + (rounded - x).detach() if self.hard else x

    def _rounded(self, weight: Tensor) -> Tensor:
        """A weight as training uses it: once hard, as rounded as evaluation has it."""
        if not self.hard:
            return weight
        fixed = self._whole(weight) * 2.0**-self.fraction_bits
        return weight + (fixed.to(weight.dtype).to(weight.device) - weight).detach()

    def _whole(self, weight: Tensor) -> Tensor:
        """A weight as a whole number of 2^-fraction_bits."""
        return (_wide(weight).clamp(-_LARGEST, _LARGEST) * 2.0**self.fraction_bits).round()


def _wide(x: Tensor) -> Tensor:
    """In float64, on the host if the device has none."""
    return (x.cpu() if x.device.type in WITHOUT_FLOAT64 else x).double()


def _signs(x: Tensor) -> Tensor:
    """1 where `x` is 0 or more, -1 elsewhere; rows of the identity stay zero."""
    signs = torch.where(x >= 0, 1.0, -1.0).to(x.dtype)
    return signs.masked_fill(_is_identity(x), 0)


def _is_identity(x: Tensor) -> Tensor:
    return (x == 0).all(-1, keepdim=True)


def _fraction_bits(channels: int, hidden_channels: int) -> int:
    """The finest rounding of weights with all sums of their products below 2^53."""
    # The first layer adds 2 channels + 2 weights, the second hidden pairs of those, and a few.
    largest = (2 * channels + 2) * _LARGEST * 2 * (hidden_channels + 4) * _LARGEST
    bits = min(12, math.floor((52 - math.log2(largest)) / 2))
    if bits < 6:
        raise ValueError(
            f"{channels} channels and {hidden_channels} hidden ones leave {bits} bits for the "
            "fraction of a weight; expected 6 or more, so use fewer channels"
        )
    return bits
