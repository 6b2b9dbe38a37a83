"""Who runs a Binary-GRU fold: compiled loops where they can be had, or torch."""

from functools import cache
from importlib.metadata import version
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from treefold.operators.binary_gru_torch import TorchLoops
from treefold.operators.binary_gru_work import Parameters, Work
from treefold.operators.engine.building import capability
from treefold.operators.engine.folding import why_not


@runtime_checkable
class Loops(Protocol):
    """From rows `[rows, inner, channels]` to groups, level by level, and back."""

    def can_multiply(self, precision: torch.dtype, channels: int) -> bool:
        """Whether these loops multiply rows of so many channels in this precision."""
        ...

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
    compiled = compiled_loops() if x.device.type == "cpu" and x.dtype == torch.float32 else None
    if compiled is not None and compiled.can_multiply(precision, x.shape[-1]):
        return compiled
    return TorchLoops()


@cache
def compiled_loops() -> Loops | None:
    """None without numba, without a multiplication to call, or with nowhere to keep the code."""
    try:
        from treefold.operators.binary_gru_compiled import CompiledLoops  # noqa: PLC0415 (optional)
    except (ImportError, RuntimeError):
        return None
    return CompiledLoops()


def kernels_in_use() -> str:
    """The backend of folds on this CPU: `C++ for AVX512`, `numba 0.68.1`, or `torch`."""
    if why_not() is None:
        return f"C++ for {capability()}"
    return "torch" if compiled_loops() is None else f"numba {version('numba')}"
