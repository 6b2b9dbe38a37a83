"""Gates in Triton's interpreter, and folds to try them on."""

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from trees import normal

from treefold.fold import tree_fold
from treefold.operators import OPERATORS
from treefold.operators.gpu import choice, levels

SOURCE = levels.__file__.replace("levels.py", "triton_gates.py")
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "binary-gru": ("binary-gru", {}),
    "gated-selection": ("gated-selection", {}),
    "stretched": ("gated-selection", {"stretch": 0.2, "hidden_channels": 7}),
    "without selecting": ("gated-selection", {"selects": False}),
    "without writing": ("gated-selection", {"writes": False}),
}
"""Operators, with each way of building their kernels."""


def interpreted() -> ModuleType:
    """The kernels as Triton's interpreter runs them, on CPU tensors."""
    pytest.importorskip("triton")
    name = "interpreted_triton_gates"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, SOURCE)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with patch.dict(os.environ, {"TRITON_INTERPRET": "1"}):
            spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


def off_cpu(monkeypatch: Any, gates: ModuleType) -> None:
    """Fold CPU tensors as if they were elsewhere, by the gates of a module."""
    monkeypatch.setattr(choice, "ON_CPU", True)

    def chosen(name: str, device: Any, channels: int, kinds: Any, settings: Any, _: Any) -> Any:
        if name == "binary_gru":
            return gates.TritonBinaryGRU()
        return gates.TritonGatedSelection(kinds[2], kinds[3], *settings)

    monkeypatch.setattr(choice, "gates_for", chosen)


def stirred(kind: str, channels: int, dtype: torch.dtype = torch.float64) -> Any:
    """An operator with noise on every parameter."""
    name, options = KINDS[kind]
    operator = OPERATORS[name](channels, **options).to(dtype)
    with torch.no_grad():
        for seed, parameter in enumerate(operator.parameters()):
            parameter.copy_(0.5 * normal(*parameter.shape, seed=seed))
    return operator


def results(operator: Any, x: Any, plan: Any, rows: Tensor) -> list[Tensor]:
    """Groups, nodes, and gradients of rows and parameters."""
    fold = tree_fold(operator, x, plan)
    loss = fold.groups.sin().sum() + fold.nodes.cos().sum()
    inputs = [rows, *operator.parameters()]
    grads = torch.autograd.grad(loss, inputs, allow_unused=True)
    filled = [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True)]
    return [fold.groups.detach(), fold.nodes.detach(), *filled]
