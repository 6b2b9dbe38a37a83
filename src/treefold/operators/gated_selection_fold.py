"""Gated selection in plain operations, and what the compiled engine needs to fold it."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from treefold.operators.engine.folding import Compiled, Parameters, compiled


def stretched_gate(x: Tensor, stretch: float) -> Tensor:
    """A sigmoid; with `stretch`, stretched beyond 0 and 1 by that much, and cut off there."""
    gate = x.sigmoid()
    if not stretch:
        return gate
    return ((1 + 2 * stretch) * gate - stretch).clamp(0, 1)


def _num_saved(parameters: Parameters) -> int | torch.SymInt:
    """The hidden layer for both orders; one gate of selecting, and writing's with what is new."""
    hidden, _, select, write, _ = parameters
    assert hidden is not None
    return hidden.shape[0] + sum(each.shape[0] for each in (select, write) if each is not None)


def combine(a: Tensor, b: Tensor, parameters: Parameters, settings: Sequence[Any]) -> Tensor:
    """a ⊕ b in plain operations."""
    hidden_weight, hidden_bias, select, write, write_bias = parameters
    assert hidden_weight is not None
    (stretch,) = settings
    # `hidden_weight` has the weights for a first and for a second argument, one after the other.
    a_first, a_second = F.linear(a, hidden_weight, hidden_bias).chunk(2, -1)
    b_first, b_second = F.linear(b, hidden_weight, hidden_bias).chunk(2, -1)
    ab, ba = F.gelu(a_first + b_second), F.gelu(b_first + a_second)
    if select is None:
        chosen = (a + b) / 2
    else:
        # `lerp` is exact at both ends. Under autocast, layers give another type of number.
        chosen = torch.lerp(b, a, stretched_gate(F.linear(ab - ba, select), stretch).to(a.dtype))
    if write is None:
        return chosen
    keep, new = F.linear(ab + ba, write, write_bias).to(a.dtype).chunk(2, -1)
    return torch.lerp(new.tanh(), chosen, stretched_gate(keep, stretch))


GATED_SELECTION = compiled(Compiled("gated_selection", 5, _num_saved, combine))
