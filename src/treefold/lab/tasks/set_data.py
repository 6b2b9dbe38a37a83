"""Labelled multisets of integers: many in a few tensors, cut into batches without a loop."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from treefold.fold import Groups, places_within
from treefold.shapes import Int

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SetData:
    """Multisets, one after the other in `values`, and the answer for each."""

    values: Int[Tensor, " n"]
    sizes: Int[Tensor, " sets"]
    answers: Int[Tensor, " sets"]

    def __len__(self) -> int:
        return self.sizes.numel()

    @cached_property
    def groups(self) -> Groups:
        """The values of each set."""
        return Groups.from_sizes(self.sizes)

    @cached_property
    def _starts(self) -> Tensor:
        return starts(self.sizes)

    def take(self, sets: Int[Tensor, " chosen"]) -> "SetData":
        """The multisets with these numbers, in this order."""
        rows = rows_of(self.sizes, sets, self._starts)
        return SetData(self.values[rows], self.sizes[sets], self.answers[sets])

    def to(self, device: torch.device | str) -> "SetData":
        """The same multisets on another device."""
        return moved(self, device)


def moved(data: T, device: torch.device | str) -> T:
    """A dataclass with all that it holds on another device."""
    held = {entry.name: getattr(data, entry.name) for entry in fields(data)}  # type: ignore[arg-type]
    there = {name: part.to(device) for name, part in held.items() if hasattr(part, "to")}
    return replace(data, **there)  # type: ignore[type-var]


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
