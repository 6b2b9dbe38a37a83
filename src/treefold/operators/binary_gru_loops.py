"""Who runs a Binary-GRU fold: compiled loops where they can be had, or torch."""

from functools import cache
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from treefold.operators.binary_gru_torch import TorchLoops
from treefold.operators.binary_gru_work import Parameters, Work


@runtime_checkable
class Loops(Protocol):
    """From rows `[rows, inner, channels]` to groups, level by level, and back."""

    def runs_per_chunk(self, keeps: bool) -> int:
        """Into how many runs a chunk is best cut, if a gradient is to come and if not."""
        ...

    def forward(
        self, work: Work, x: Tensor, parameters: Parameters, groups: Tensor
    ) -> tuple[Tensor | None, Any]:
        """Write the groups; the nodes if they are to be shown, and memory for the way back."""
        ...

    def backward(
        self,
        work: Work,
        x: Tensor,
        memory: Any,
        grad_groups: Tensor | None,
        grad_nodes: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """The gradients of `x` and of all parameters, with the memory that `forward` gave."""
        ...


def loops_for(x: Tensor, precision: torch.dtype) -> Loops:
    """The fastest loops for rows like these, multiplied in this precision."""
    in_reach = x.device.type == "cpu" and x.dtype == precision == torch.float32
    return (in_reach and compiled_loops()) or TorchLoops()


@cache
def compiled_loops() -> Loops | None:
    """None without numba, without a multiplication to call, or with nowhere to keep the code."""
    try:
        from treefold.operators.binary_gru_compiled import CompiledLoops  # noqa: PLC0415 (optional)
    except (ImportError, RuntimeError):
        return None
    return CompiledLoops()
