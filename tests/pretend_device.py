"""A device that is not there: its tensors hold values, and whatever the host waits for is counted.

Autograd, devices and index arithmetic are torch's own; memory and arithmetic are the CPU's. The
device's type is `lazy`, which torch knows, has no library for, and lets run backward.
"""

from contextlib import ExitStack, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = torch.device("lazy", 0)
aten = torch.ops.aten
READS_VALUES = {
    aten._local_scalar_dense.default,
    aten.is_nonzero.default,
    aten.equal.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.bincount.default,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.unique_dim.default,
}
"""Their results, or the lengths of these, are read on the host."""


class There(Tensor):
    """A tensor on the device."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "There":
        made = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    def __repr__(self) -> str:
        return f"There({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{op} outside of the pretended device")


class PretendDevice(TorchDispatchMode):
    """Inside, tensors can be `There`; what the host does with them is remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.forget()

    def forget(self) -> None:
        """Start counting again."""
        self.waits: list[str] = []
        """Operations of which the host waits for a value or a length."""
        self.copies: list[tuple[int, ...]] = []
        """Shapes that were copied from the host."""
        self.doubles: list[str] = []
        """Operations that made float64 there."""

    def __enter__(self) -> "PretendDevice":
        self._patches = ExitStack()
        for name, instead in {"is_autocast_enabled": False, "autocast": nullcontext()}.items():
            asked = _unless_there(getattr(torch, name), instead)
            self._patches.enter_context(patch.object(torch, name, asked))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patches.close()

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        was_there = any(isinstance(each, There) for each in given)
        is_there = was_there
        if kwargs.get("device") is not None:
            is_there = torch.device(kwargs["device"]).type == DEVICE.type
            kwargs["device"] = torch.device("cpu")
        if was_there and (not is_there or self._reads_values(op, args, kwargs)):
            self.waits.append(str(op))
        self._note_copies(op, args, given, was_there, is_there)
        out = op(*_held(args), **_held(kwargs))
        if not is_there:
            return out
        if any(each.dtype == torch.float64 for each in tree_leaves(out) if _is_tensor(each)):
            self.doubles.append(str(op))
        return tree_map_only(Tensor, There, out)

    def _reads_values(self, op: Any, args: Any, kwargs: Any) -> bool:
        if op in READS_VALUES:
            return True
        if op is aten.repeat_interleave.Tensor:
            return kwargs.get("output_size") is None
        if op in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default):
            return any(each is not None and each.dtype == torch.bool for each in args[1])
        if op is aten.copy_.default:
            return isinstance(args[1], There) and not isinstance(args[0], There)
        return False

    def _note_copies(
        self, op: Any, args: Any, given: list[Tensor], was_there: bool, is_there: bool
    ) -> None:
        if op is aten._to_copy.default and is_there and not was_there:
            self.copies.append(tuple(args[0].shape))
        if op is aten.copy_.default and isinstance(args[0], There) and not _is_there(args[1]):
            self.copies.append(tuple(args[1].shape))


def _unless_there(function: Any, instead: Any) -> Any:
    """Autocast, which raises for devices it does not know."""

    def asked(device: str = "cpu", *args: Any, **kwargs: Any) -> Any:
        return instead if device == DEVICE.type else function(device, *args, **kwargs)

    return asked


def _held(tree: Any) -> Any:
    return tree_map_only(There, lambda each: each.held, tree)


def _is_there(value: Any) -> bool:
    return isinstance(value, There)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)
