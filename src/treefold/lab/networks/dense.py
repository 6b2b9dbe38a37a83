"""Dense layers as the multi-task benchmark has them: Linear, activation, then batch norm."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

Activation = Callable[[], nn.Module]


def dense(
    in_channels: int, out_channels: int, activation: Activation, batch_norm: bool = False
) -> nn.Sequential:
    """A linear map and its activation, and batch norm after both if asked for."""
    linear = nn.Linear(in_channels, out_channels)
    pna_init_(linear.weight.T, linear.bias)
    norm = [nn.BatchNorm1d(out_channels)] if batch_norm else []
    return nn.Sequential(linear, activation(), *norm)


def mlp(
    channels: list[int], hidden: Activation, last: Activation, batch_norm: bool = False
) -> nn.Sequential:
    """Dense layers one after the other; batch norm after all of them but the last."""
    pairs = list(pairwise(channels))
    return nn.Sequential(
        *(dense(before, after, hidden, batch_norm) for before, after in pairs[:-1]),
        dense(*pairs[-1], last),
    )


@torch.no_grad()
def pna_init_(weight: Tensor, bias: Tensor) -> None:
    """Xavier-uniform with gain 1 / inputs, bias zero: how PNA begins every dense layer.

    `weight` is `[..., inputs, outputs]`.
    """
    inputs, outputs = weight.shape[-2:]
    bound = (6 / (inputs + outputs)) ** 0.5 / inputs
    weight.uniform_(-bound, bound)
    bias.zero_()
