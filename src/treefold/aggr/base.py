"""The border to PyG: `index`, `ptr`, `dim_size` and `dim` come in, `Groups` go on."""

from abc import abstractmethod
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation

from treefold.aggr.plan_cache import cached_groups
from treefold.aggr.static import StaticGroups, is_static, static_groups
from treefold.algebra import describe, map_state
from treefold.fold import Groups, Rows, TableRows
from treefold.operators import HALF_TYPES, autocast_device, is_small, one_thread
from treefold.shapes import Shaped


class RaggedAggregation(Aggregation):  # type: ignore[misc]
    """A PyG aggregation whose answer for a group depends on that group alone.

    Drop it in as `aggr=` of any PyG layer, or as a readout. `index` may be unsorted and of any
    integer type, `x` may have any number of feature axes, and `dim` may be any of its axes. Our own
    layers call `aggregate(x, groups)` directly.
    """

    @abstractmethod
    def aggregate(self, x: Rows, groups: Groups) -> Tensor:
        """One row `[*feature]` per group, from rows `[n, *feature]` (or `TableRows`)."""

    def __call__(
        self,
        x: Shaped[Tensor, " ..."],
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        **kwargs: Any,
    ) -> Tensor:
        """Check the input as PyG does, but before any work and in plain words; then aggregate."""
        if not torch.compiler.is_compiling():
            _require_no_jit()
            _require_strided("x", x)
            _require_beside("index", index, x)
            if not isinstance(ptr, Tensor) or not ptr.is_cpu:  # on the host it is read sooner
                _require_beside("ptr", ptr, x)
        if not -x.dim() <= dim < x.dim():
            raise ValueError(f"dim is {dim}, but x has {x.dim()} axes {tuple(x.shape)}")
        out: Tensor = nn.Module.__call__(
            self, x, index=index, ptr=ptr, dim_size=dim_size, dim=dim, **kwargs
        )
        return out

    def aggregate_static(self, x: Tensor, groups: StaticGroups) -> Tensor:
        """The same without reading sizes; what torch.compile and torch.export record."""
        raise NotImplementedError(
            f"{type(self).__name__} has no way without reading the sizes of groups, which torch."
            "compile, torch.export and tensors without values need; give it an `aggregate_static("
            "x, groups)`, or exclude it by torch.compiler.disable"
        )

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Aggregate the slices of `x` along `dim` that share a value of `index`."""
        if is_static(x):
            rows = x.movedim(dim, 0)
            static = static_groups(index, ptr, dim_size, rows.shape[0], max_num_elements, rows)
            found = self.aggregate_static(rows, static)
        else:
            with one_thread(is_small(x.numel(), x.shape[-1])):
                found = self._planned(x, index, ptr, dim_size, dim, max_num_elements)

        def moved(part: Tensor) -> Tensor:
            return part.movedim(0, dim % x.dim()).contiguous()

        return cast(Tensor, map_state(moved, found))

    def _planned(
        self,
        x: Tensor,
        index: Tensor | None,
        ptr: Tensor | None,
        dim_size: int | None,
        dim: int,
        max_num_elements: int | None,
    ) -> Tensor:
        groups = cached_groups(index, ptr, dim_size, x.shape[dim], x.device)
        if max_num_elements is not None and groups.max_size > max_num_elements:
            raise ValueError(
                f"a group has {groups.max_size} elements, but max_num_elements is "
                f"{max_num_elements}; nothing is cut off here, so leave max_num_elements out"
            )
        return self.aggregate(x.movedim(dim, 0), groups)

    def __prepare_scriptable__(self) -> "RaggedAggregation":
        """Refuse `torch.jit.script`, which asks every module for this."""
        raise RuntimeError(
            f"torch.jit.script cannot take {type(self).__name__}, whose plans are made in Python "
            "for each batch; give its network to torch.compile, torch.export.export or "
            "torch.onnx.export(dynamo=True)"
        )


def _require_no_jit() -> None:
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        raise RuntimeError(
            "torch.jit.trace records one batch's plan, which is wrong for the next batch; give the "
            "network to torch.compile, torch.export.export or torch.onnx.export(dynamo=True)"
        )


def _require_strided(name: str, given: object) -> None:
    """Refuse what is no tensor, and tensors whose numbers do not lie side by side."""
    if not isinstance(given, Tensor):
        raise ValueError(
            f"{name} is a {type(given).__name__}; expected a tensor: give torch.as_tensor({name})"
        )
    if given.is_nested:
        raise ValueError(
            f"{name} is a nested tensor; expected one tensor of all rows: give {name}.values(), "
            f"and ptr={name}.offsets()"
        )
    if given.layout != torch.strided:
        raise ValueError(
            f"{name} has layout {given.layout}; expected torch.strided: give {name}.to_dense()"
        )


def _require_beside(name: str, given: object, x: Tensor) -> None:
    """Refuse an index that is no tensor, or lies on another device than `x`."""
    if given is None:
        return
    _require_strided(name, given)
    device = cast(Tensor, given).device
    if device != x.device:
        raise ValueError(
            f"{name} is on {device}, but x is on {x.device}; expected both on one device: give "
            f"{name}.to(x.device)"
        )


def checked_channels(channels: object) -> int:
    """The number of channels, or a ValueError that says what is wrong with it."""
    if not isinstance(channels, int) or isinstance(channels, bool) or channels < 1:
        raise ValueError(
            f"channels is {channels!r}; expected a whole number, 1 or more, the width of a layer's "
            "messages: it is not found out from the first batch"
        )
    return channels


def checked_flag(name: str, flag: object) -> bool:
    """True or False as it is, or a ValueError: a string such as "no" would count as True."""
    if not isinstance(flag, bool):
        raise ValueError(f"{name} is {flag!r}; expected True or False")
    return flag


def require_channels(x: Rows, channels: int) -> None:
    """Refuse rows whose last axis is not `channels` long."""
    found = x.table if isinstance(x, TableRows) else x
    if not isinstance(found, Tensor) or found.dim() < 2 or found.shape[-1] != channels:
        shapes = tuple(found.shape) if isinstance(found, Tensor) else describe(found)
        raise ValueError(
            f"rows have shape {shapes}; expected [n, ..., {channels}], because the aggregator was "
            f"made for {channels} channels, the width of a layer's messages"
        )


def require_type(x: Rows, learned: object) -> None:
    """Refuse rows of another type of number than the parameters of an operator or a cell.

    Under autocast, float32 and the half types go together; and an operator may take the half types
    as it is (`takes_half`). What has no parameters takes anything.
    """
    rows = cast(Tensor, x.table if isinstance(x, TableRows) else x)
    parameters = learned.parameters() if isinstance(learned, nn.Module) else iter(())
    wanted = next((part.dtype for part in parameters if part.is_floating_point()), rows.dtype)
    if rows.dtype == wanted:
        return
    if getattr(learned, "takes_half", False) and rows.dtype in HALF_TYPES:
        return
    mixed = (torch.float32, *HALF_TYPES)
    if torch.is_autocast_enabled(autocast_device(rows)) and rows.dtype in mixed and wanted in mixed:
        return
    advice = f"give x{_CASTS.get(wanted, f'.to({wanted})')}"
    if rows.dtype in _CASTS:
        advice += f", or use module{_CASTS[rows.dtype]}"
    raise ValueError(
        f"rows are {rows.dtype}, but the parameters of {type(learned).__name__} are {wanted}; "
        f"{advice}"
    )


_CASTS = {
    torch.float32: ".float()",
    torch.float64: ".double()",
    torch.bfloat16: ".bfloat16()",
    torch.float16: ".half()",
}
