"""The border to PyG: `index`, `ptr`, `dim_size` and `dim` come in, `Groups` go out."""

from abc import abstractmethod
from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric.nn.aggr import Aggregation

from treefold.aggr.pyg_groups import groups_of
from treefold.aggr.set_inputs import set_input
from treefold.aggr.static import StaticGroups
from treefold.algebra import State, describe, map_state
from treefold.fold import Groups, Rows, Sets, TableRows
from treefold.operators import HALF_TYPES, autocast_device, limit_threads, reset_threads
from treefold.saving import Saved


class RaggedAggregation(Saved, Aggregation):  # type: ignore[misc]
    """A PyG aggregation whose answer for a group depends on that group alone.

    Drop it in as `aggr=` of any PyG layer, or as a readout. `index` may be unsorted and of any
    integer type, `x` may have any number of feature axes, and `dim` may be any of its axes. Our own
    layers call `aggregate(x, groups)` directly.
    """

    @abstractmethod
    def aggregate(self, x: Rows, groups: Groups) -> Tensor:
        """One row `[*feature]` per group, from rows `[n, *feature]` (or `TableRows`)."""

    __call__ = nn.Module.__call__  # not PyG's, which looks at the input after the work is done

    def aggregate_static(self, x: Tensor, groups: StaticGroups) -> Tensor:
        """The same without reading sizes; what torch.compile and torch.export record."""
        raise NotImplementedError(
            f"{type(self).__name__} has no way without reading the sizes of groups, which torch."
            "compile, torch.export and tensors without values need; give it an `aggregate_static("
            "x, groups)`, or exclude it by torch.compiler.disable"
        )

    def aggregate_weighted(
        self, x: Tensor, groups: Groups | StaticGroups, weight: Tensor
    ) -> Tensor:
        """One row per group, where row i is there `weight[i]` times."""
        raise ValueError(
            f"{self} takes no weight; sum, mean and std do, and the exact monoids Sum, Mean, "
            "Variance and LogSumExp: let a learned operator see a weight as one of its channels"
        )

    def forward(
        self,
        x: Sets,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
        *,
        mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        weight: Sets | None = None,
    ) -> Tensor:
        """Aggregate the slices of `x` along `dim` that share a value of `index`.

        Sets without an index are a list of tensors `[size, *feature]`, a nested tensor, a padded
        batch `[sets, places, *feature]` with a boolean `mask`, true where there is an element, or
        rows `[n, *feature]` with `cu_seqlens`; see `treefold.reduce_sets`. `weight` has one number
        for each row, for aggregators where that has a meaning.
        """
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            raise RuntimeError(
                "torch.jit.trace records one batch's plan, which is wrong for the next batch; "
                "give the network to torch.compile, torch.export.export or "
                "torch.onnx.export(dynamo=True)"
            )
        listed = isinstance(x, list | tuple)
        if listed or mask is not None or cu_seqlens is not None or getattr(x, "is_nested", False):
            words = {"index": index, "ptr": ptr, "dim_size": dim_size, "dim": dim}
            sets = set_input(x, mask, cu_seqlens, weight, max_num_elements, **words)
            rows, groups, weight, num_sets = sets
            place = 0
        else:
            x, num_sets = cast(Tensor, x), None
            groups = groups_of(x, index, ptr, dim_size, dim, max_num_elements)
            # The gradient of a view would be copied into `x.grad`.
            place = dim % x.dim()
            rows = x.movedim(place, 0) if place else x
        if weight is not None:
            found: State = self.aggregate_weighted(rows, groups, cast(Tensor, weight))
        elif isinstance(groups, Groups):
            threads = limit_threads(rows.numel(), rows.shape[-1])
            try:
                found = self.aggregate(rows, groups)
            finally:
                reset_threads(threads)
        else:
            found = self.aggregate_static(rows, groups)
        if num_sets is not None:
            found = map_state(lambda part: part[:num_sets], found)
        if isinstance(found, Tensor) and not place:
            return found.contiguous()
        return cast(Tensor, map_state(lambda part: part.movedim(0, place).contiguous(), found))

    def __prepare_scriptable__(self) -> "RaggedAggregation":
        """Refuse `torch.jit.script`, which asks every module for this."""
        raise RuntimeError(
            f"torch.jit.script cannot take {type(self).__name__}, whose plans are made in Python "
            "for each batch; give its network to torch.compile, torch.export.export or "
            "torch.onnx.export(dynamo=True)"
        )


def checked_channels(channels: object) -> int:
    """The number of channels, or a ValueError that names what is wrong with it."""
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
