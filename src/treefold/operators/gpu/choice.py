"""Gates off the CPU: by Triton on CUDA devices, once it agrees with torch; else by torch."""

import logging
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from math import prod
from typing import Any, cast

import torch
from torch import Tensor

from treefold.fold import Fold, Rows, TableRows, TreePlan, plan_tree
from treefold.operators.gpu.fold import BinaryGRULevels, FoldLevels, GatedSelectionLevels, Work
from treefold.operators.gpu.levels import TorchBinaryGRU, TorchGatedSelection
from treefold.operators.transforms import are_transforms_active, is_traced

_log = logging.getLogger("treefold")

OPERATORS: dict[str, Any] = {
    "binary_gru": BinaryGRULevels,
    "gated_selection": GatedSelectionLevels,
}
ON_CPU = False
"""Folds of CPU tensors come here too: for tests, and to count operations."""

TRITON_DEVICES = ("cuda",)

PlainFold = Callable[..., Any]


def can_fold(name: str, tensors: Sequence[Tensor | None]) -> bool:
    """Return True if an operator folds such rows, identity and parameters here."""
    rows = tensors[0]
    assert rows is not None
    if (rows.is_cpu and not ON_CPU) or is_traced(rows) or are_transforms_active():
        return False
    learned = tensors[2:]
    return name == "binary_gru" or any(each is not None for each in learned[2:])


def fold(
    name: str,
    x: Rows,
    plan: TreePlan,
    tensors: Sequence[Tensor | None],
    settings: tuple[float, ...],
    factor_type: torch.dtype,
    plain: PlainFold,
) -> Fold:
    """Groups and nodes of rows, identity and parameters."""
    table, identity, *parameters = tensors
    assert table is not None
    assert identity is not None
    leaves, is_permutation = plan.leaves, True
    if isinstance(x, TableRows):
        leaves = x.rows.index_select(0, plan.leaves).long()
        is_permutation = x.is_permutation
    kinds = tuple(each is not None for each in parameters)
    gates = gates_for(name, table.device, table.shape[-1], kinds, settings)
    rows = table.reshape(len(table), prod(table.shape[1:-1]), table.shape[-1])
    work = Work(plan, leaves, is_permutation, factor_type, OPERATORS[name], gates, plain)
    with torch.autocast(table.device.type, enabled=False):
        groups, nodes = FoldLevels.apply(work, rows, identity, *parameters)  # type: ignore[no-untyped-call]
    feature = table.shape[1:]
    return Fold(groups.view(-1, *feature), nodes.view(-1, *feature))


@cache
def gates_for(
    name: str,
    device: torch.device,
    channels: int,
    kinds: tuple[bool, ...],
    settings: tuple[float, ...],
) -> Any:
    """Triton's gates on a CUDA device, if one small fold agrees with torch's; else torch's."""
    in_torch = gates_in_torch(name, kinds, settings)
    if device.type not in TRITON_DEVICES:
        return in_torch
    try:
        in_triton = gates_in_triton(name, kinds, settings)
        _require_agreement(name, device, channels, kinds, in_triton, in_torch)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        _log.warning("treefold: gates of %s run in plain torch on %s: %s", name, device, reason)
        return in_torch
    return in_triton


def gates_in_torch(name: str, kinds: tuple[bool, ...], settings: tuple[float, ...]) -> Any:
    """Gates in plain torch."""
    if name == "binary_gru":
        return TorchBinaryGRU()
    return TorchGatedSelection(kinds[2], kinds[3], *settings)


def gates_in_triton(name: str, kinds: tuple[bool, ...], settings: tuple[float, ...]) -> Any:
    """Gates as Triton kernels, or an error with the reason."""
    if find_spec("triton") is None:
        raise ImportError("triton is not installed")
    from treefold.operators.gpu import triton_gates  # noqa: PLC0415 (optional)

    if name == "binary_gru":
        return triton_gates.TritonBinaryGRU()
    return triton_gates.TritonGatedSelection(kinds[2], kinds[3], *settings)


def _require_agreement(
    name: str, device: torch.device, channels: int, kinds: tuple[bool, ...], ours: Any, plain: Any
) -> None:
    """Refuse gates that give other results, or gradients, for one small fold."""
    generator = torch.Generator().manual_seed(0)
    plan = plan_tree([5, 1, 0, 3, 2, 7]).to(device)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).div_(shape[-1] ** 0.5).to(device)

    wide = (
        [(3, 1), (3, 1), (3,), (3,)]
        if name == "binary_gru"
        else [(2, 1), (2,), (1, 1), (2, 1), (2,)]
    )
    given = [normal(18, 1, channels), normal(channels)]
    given += [normal(*(part * channels for part in shape)) for shape in wide]
    with torch.inference_mode(False), torch.enable_grad():
        found = [_results(name, plan, gates, given, kinds) for gates in (ours, plain)]
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def _results(
    name: str, plan: TreePlan, gates: Any, given: list[Tensor], kinds: tuple[bool, ...]
) -> list[Tensor]:
    """Groups, nodes, and the gradients of all that is given."""
    there = (True, True, *kinds)
    inputs = [
        x.clone().requires_grad_() if is_there else None
        for x, is_there in zip(given, there, strict=True)
    ]
    work = Work(plan, plan.leaves, True, torch.float32, OPERATORS[name], gates, _never)
    out = FoldLevels.apply(work, *inputs)  # type: ignore[no-untyped-call]
    wanted = [x for x in inputs if x is not None]
    grads = torch.autograd.grad([each.square().sum() for each in out], wanted)
    return [*(cast(Tensor, each).detach() for each in out), *grads]


def _never(*_: Tensor) -> Sequence[Tensor]:
    raise RuntimeError("a small fold is not differentiated twice")
