"""Rows of many groups in one tensor: where each group starts, and which rows chosen groups have."""

import torch
from torch import Tensor

from treefold.fold import places_within
from treefold.shapes import Int


def starts(sizes: Int[Tensor, " groups"]) -> Int[Tensor, " groups"]:
    """The first row of each group, where each group has so many consecutive rows."""
    return sizes.cumsum(0) - sizes


def rows_of(
    sizes: Int[Tensor, " groups"],
    chosen: Int[Tensor, " chosen"],
    first: Int[Tensor, " groups"] | None = None,
) -> Int[Tensor, " n"]:
    """The rows of the chosen groups, one group after the other, without a loop.

    `first` is `starts(sizes)`, for those who have it already.
    """
    lengths, first = sizes[chosen], starts(sizes) if first is None else first
    return torch.repeat_interleave(first[chosen], lengths) + places_within(lengths)
