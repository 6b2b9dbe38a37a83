"""The precisions a network can be trained in, and how its inputs get there.

Fabric would convert everything that is given to a network, and stops at our frozen dataclasses.
Here inputs stay what they are, but for floating-point tensors where the parameters are of another
type; under autocast torch converts by itself.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from treefold.names import require_one_of

FULL = "32-true"
PRECISIONS: dict[str, torch.dtype] = {
    FULL: torch.float32,
    "64-true": torch.float64,
    "bf16-true": torch.bfloat16,
    "bf16-mixed": torch.float32,
    "16-mixed": torch.float32,
}
"""The type of parameters, by the name of the precision."""


def check_precision(precision: str, device: str) -> None:
    """Raise a ValueError for a precision that is unknown, or cannot work."""
    if precision == "16-true":
        raise ValueError(
            "precision is 16-true, in which Adam's squared gradients are rounded to 0; use "
            "16-mixed, bf16-mixed or bf16-true"
        )
    require_one_of(PRECISIONS, precision, "precision")
    if precision == "64-true" and device == "mps":
        raise ValueError("precision is 64-true, which device mps does not have; use --device cpu")


def fabric_options(precision: str, device: str) -> dict[str, Any]:
    """Options that ask Fabric for a precision: on CPUs it would take bf16-mixed for 16-mixed."""
    if (precision, device) != ("16-mixed", "cpu"):
        return {"precision": precision}
    from lightning_fabric.plugins.precision import MixedPrecision  # noqa: PLC0415  (takes a second)

    return {"plugins": [MixedPrecision("16-mixed", "cpu")]}


def leave_inputs(plugin: Any) -> None:
    """Let a precision plugin of Fabric give networks what they are given."""
    plugin.convert_input = lambda data: data


def take_any_floats(model: nn.Module, precision: str) -> None:
    """Let a network turn floating-point inputs into the type of its parameters."""
    dtype = PRECISIONS[precision]
    if dtype == torch.float32:
        return

    def cast(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        entries = {name: _cast(value, dtype) for name, value in named.items()}
        return tuple(_cast(value, dtype) for value in given), entries

    model.register_forward_pre_hook(cast, with_kwargs=True)


def leave_unscaling(optimizer: Optimizer) -> None:
    """Let 16-mixed divide gradients before they are clipped, and not in a fused step."""
    optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]


def _cast(value: Any, dtype: torch.dtype) -> Any:
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return value.to(dtype) if is_float else value
