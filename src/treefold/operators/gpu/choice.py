"""Folds off the CPU: gates in Triton on CUDA devices, once they agree with plain torch."""

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
from treefold.operators.transforms import are_transforms_active, is_traced

_log = logging.getLogger("treefold")

OPERATORS: dict[str, Any] = {
    "binary_gru": BinaryGRULevels,
    "gated_selection": GatedSelectionLevels,
}
ON_CPU = False
"""Folds of CPU tensors come here too: for tests, and to count operations."""

TRITON_DEVICES = ("cuda",)

Tensors = Sequence[Tensor | None]
"""Rows, identity and parameters."""
PlainFold = Callable[..., Fold]
"""The fold in plain torch, of rows, plan, type of factors, settings, and tensors."""


def gates_of(name: str, tensors: Tensors, settings: tuple[float, ...], plain: PlainFold) -> Any:
    """The gates by which an operator folds such tensors here, or None."""
    rows, _, *learned = tensors
    assert rows is not None
    if (rows.is_cpu and not ON_CPU) or is_traced(rows) or are_transforms_active():
        return None
    if name == "gated_selection" and not any(each is not None for each in learned[2:]):
        return None
    kinds = tuple(each is not None for each in learned)
    return gates_for(name, rows.device, rows.shape[-1], kinds, settings, plain)


def fold(
    name: str,
    gates: Any,
    x: Rows,
    plan: TreePlan,
    tensors: Tensors,
    factor_type: torch.dtype,
    plain: Callable[..., Fold],
) -> Fold:
    """Groups and nodes; `plain` makes them of the tensors in plain torch."""
    table, identity, *parameters = tensors
    assert table is not None
    leaves, is_permutation = plan.leaves, True
    if isinstance(x, TableRows):
        leaves = x.rows.index_select(0, plan.leaves).long()
        is_permutation = x.is_permutation
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
    plain: PlainFold,
) -> Any:
    """Triton's gates on a CUDA device, if one small fold agrees with plain torch's; else None."""
    if device.type not in TRITON_DEVICES:
        return None
    try:
        gates = gates_in_triton(name, kinds, settings)
        _require_agreement(name, device, channels, kinds, settings, gates, plain)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        _log.warning("treefold: %s folds in plain torch on %s: %s", name, device, reason)
        return None
    return gates


def gates_in_triton(name: str, kinds: tuple[bool, ...], settings: tuple[float, ...]) -> Any:
    """Gates as Triton kernels; an error says why not."""
    if find_spec("triton") is None:
        raise ImportError("triton is not installed")
    from treefold.operators.gpu import triton_gates  # noqa: PLC0415 (optional)

    if name == "binary_gru":
        return triton_gates.TritonBinaryGRU()
    return triton_gates.TritonGatedSelection(kinds[2], kinds[3], *settings)


def _require_agreement(
    name: str,
    device: torch.device,
    channels: int,
    kinds: tuple[bool, ...],
    settings: tuple[float, ...],
    gates: Any,
    plain: PlainFold,
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

    def ours(x: Tensor, *others: Tensor | None) -> Fold:
        return fold(name, gates, x, plan, (x, *others), torch.float32, _never)

    def theirs(x: Tensor, *others: Tensor | None) -> Fold:
        return plain(x, plan, torch.float32, settings, x, *others)

    with torch.inference_mode(False), torch.enable_grad():
        found = [_results(each, given, (True, True, *kinds)) for each in (ours, theirs)]
    for mine, expected in zip(*found, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-4)


def _results(
    run: Callable[..., Fold], given: list[Tensor], there: tuple[bool, ...]
) -> list[Tensor]:
    """Groups, nodes, and the gradients of all that is there."""
    inputs = [
        x.clone().requires_grad_() if is_there else None
        for x, is_there in zip(given, there, strict=True)
    ]
    out = [cast(Tensor, each) for each in run(*inputs)]
    wanted = [x for x in inputs if x is not None]
    grads = torch.autograd.grad([each.square().sum() for each in out], wanted)
    return [*(each.detach() for each in out), *grads]


def _never(*_: Tensor) -> Fold:
    raise RuntimeError("a small fold is not differentiated twice")
