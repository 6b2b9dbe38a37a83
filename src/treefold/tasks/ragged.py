"""Rows of many groups in one tensor: where each group starts, and which rows chosen groups have."""

import torch
from torch import Tensor

from treefold.reduction.groups import places_within
from treefold.shapes import Int


def starts(sizes: Int[Tensor, " groups"]) -> Int[Tensor, " groups"]:
    """The first row of each group, where each group has so many consecutive rows."""
    return sizes.cumsum(0) - sizes


def rows_of(sizes: Int[Tensor, " groups"], chosen: Int[Tensor, " chosen"]) -> Int[Tensor, " n"]:
    """The rows of the chosen groups, one group after the other, without a loop."""
    lengths = sizes[chosen]
    return torch.repeat_interleave(starts(sizes)[chosen], lengths) + places_within(lengths)
