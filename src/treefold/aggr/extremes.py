"""Maxima and minima of groups, with a backward that moves whole rows.

Values are PyG's, and so are gradients, which equal extremes share; but where an extreme is exactly
0, torch's `scatter_reduce` keeps one more share for the buffer it began with (torch 2.13), and here
the rows get all of it. Torch's backward also gathers and scatters single numbers, which was a large
part of the time of a network with maxima.
"""

from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.nn import aggr as pyg
from torch_geometric.utils import scatter

from treefold.operators import are_transforms_active

Extreme = Literal["max", "min"]


class ExtremeAggregation(pyg.Aggregation):  # type: ignore[misc]
    """PyG's MaxAggregation or MinAggregation; zero for empty groups."""

    def __init__(self, extreme: Extreme) -> None:
        super().__init__()
        self.extreme = extreme

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        """One row per group."""
        self.assert_index_present(index)
        rows = x.movedim(dim, 0)
        if are_transforms_active():  # forward-mode AD knows plain operations
            plain: Tensor = scatter(rows, index, 0, dim_size, self.extreme)
            return plain.movedim(0, dim)
        out: Tensor = _ExtremeOfGroups.apply(rows, index, dim_size, self.extreme)  # type: ignore[no-untyped-call]
        return out.movedim(0, dim)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extreme!r})"


class _ExtremeOfGroups(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor, index: Tensor, num_groups: int | None, extreme: Extreme) -> Tensor:
        out: Tensor = scatter(rows, index, 0, num_groups, extreme)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        rows, index, _, _ = inputs
        ctx.save_for_backward(rows, index, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        rows, index, output = ctx.saved_tensors
        is_extreme = (rows == output.index_select(0, index)).to(gradient.dtype)
        sharing = scatter(is_extreme, index, 0, len(output), "sum").clamp(min=1)
        share = (gradient / sharing).index_select(0, index)
        return is_extreme * share, None, None, None
