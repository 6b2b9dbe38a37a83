"""Which arithmetic a Binary-GRU fold does: compiled loops where they can be had, else torch's."""

from functools import cache
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from treefold.operators.binary_gru_kernel import InTorch, Projections


@runtime_checkable
class Arithmetic(Protocol):
    """The gates of a Binary-GRU and their gradients, as `InTorch` describes them."""

    def prepare(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Weights to project with, and biases to combine with."""
        ...

    def combine(
        self, projections: Projections, bias: Tensor, rows: Tensor, out: Tensor, kept: Tensor
    ) -> None:
        """Write a ⊕ b into `out`, and what its gradient needs into `kept`."""
        ...

    def combine_backward(
        self,
        grad: Tensor,
        rows: Tensor,
        kept: Tensor,
        grad_rows: Tensor,
        grad_projections: Projections,
        grad_bias: Tensor,
    ) -> None:
        """Add to `grad_rows` and `grad_bias`; write `grad_projections`, or add to them."""
        ...

    def bias_room(self, bias: Tensor) -> Tensor:
        """Zeros to which `combine_backward` adds."""
        ...

    def bias_gradient(self, found: Tensor) -> Tensor:
        """The gradient of the biases, from what was added up."""
        ...


def arithmetic_for(rows: Tensor) -> Arithmetic:
    """The fastest arithmetic for rows like these."""
    in_reach = rows.device.type == "cpu" and rows.dtype == torch.float32
    return (in_reach and compiled()) or InTorch()


@cache
def compiled() -> Arithmetic | None:
    """The compiled arithmetic: None without numba, or with nowhere to keep what it compiles."""
    try:
        from treefold.operators.binary_gru_compiled import Compiled  # noqa: PLC0415 (optional)
    except (ImportError, RuntimeError):
        return None
    return Compiled()
