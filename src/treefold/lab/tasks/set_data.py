"""Labelled multisets of integers: many in a few tensors, cut into batches without a loop."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from treefold.fold import Groups
from treefold.lab.tasks.ragged import rows_of, starts
from treefold.shapes import Int


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
        """Which values sit together."""
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
        return SetData(self.values.to(device), self.sizes.to(device), self.answers.to(device))
