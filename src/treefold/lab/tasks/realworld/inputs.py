"""Features of nodes and edges: categories to be embedded, or numbers."""

from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.shapes import Shaped


@dataclass(frozen=True)
class Categories:
    """One whole number per column, from 0 up to the column's size (exclusive)."""

    sizes: tuple[int, ...]

    @property
    def channels(self) -> int:
        """The number of columns."""
        return len(self.sizes)

    def check(self, values: Shaped[Tensor, " n channels"], what: str) -> None:
        """Refuse values that an embedding of these sizes would not have."""
        _check_channels(values, self.channels, what)
        if values.is_floating_point():
            raise ValueError(f"{what} are {values.dtype}; expected whole numbers")
        if not len(values):
            return
        lowest, highest = torch.aminmax(values, dim=0)
        outside = (lowest < 0) | (highest >= torch.tensor(self.sizes))
        for column in outside.nonzero().flatten().tolist():
            raise ValueError(
                f"{what} have {int(lowest[column])} to {int(highest[column])} in column {column}; "
                f"expected 0 to {self.sizes[column] - 1}"
            )


@dataclass(frozen=True)
class Numbers:
    """So many finite numbers."""

    channels: int

    def check(self, values: Shaped[Tensor, " n channels"], what: str) -> None:
        """Refuse values that are not finite numbers."""
        _check_channels(values, self.channels, what)
        if not bool(values.isfinite().all()):
            raise ValueError(f"{what} hold values that are not finite; expected numbers")


def _check_channels(values: Tensor, channels: int, what: str) -> None:
    if values.dim() != 2 or values.shape[1] != channels:
        raise ValueError(f"{what} have shape {list(values.shape)}; expected [n, {channels}]")
