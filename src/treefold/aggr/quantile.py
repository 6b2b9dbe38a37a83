"""Quantiles and medians of groups: a sort, and no monoid. PyG's values, found faster.

PyG sorts all rows twice. Here each group is sorted by itself, next to others of about its size, and
the gradient goes to the chosen entries alone. A quantile cannot be merged from parts, so there is
nothing to stream or to update.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor
from torch_geometric.nn import aggr as pyg

from treefold.aggr.base import RaggedAggregation
from treefold.aggr.static import StaticGroups
from treefold.fold import Groups, Rows, TableRows, require_rows
from treefold.names import require_one_of
from treefold.shapes import Int, Shaped

Interpolation = Literal["linear", "lower", "higher", "midpoint", "nearest"]


class QuantileAggregation(RaggedAggregation):
    """The quantiles `q` of each channel; several stand side by side. `fill_value` where empty.

    `interpolation` names what is between two entries, as in PyG and numpy.
    """

    def __init__(
        self,
        q: float | Sequence[float],
        interpolation: Interpolation = "linear",
        fill_value: float = 0.0,
    ) -> None:
        super().__init__()
        self.q = (q,) if isinstance(q, int | float) else tuple(q)
        if not self.q or not all(0 <= each <= 1 for each in self.q):
            raise ValueError(f"q is {q!r}; expected a number from 0 to 1, or several")
        require_one_of(get_args(Interpolation), interpolation, "interpolation")
        self.interpolation, self.fill_value = interpolation, fill_value

    def aggregate(self, x: Rows, groups: Groups) -> Tensor:
        """One row per group."""
        require_rows(x, groups)
        x = x.gathered() if isinstance(x, TableRows) else x
        if not isinstance(x, Tensor) or not x.is_floating_point():
            found = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"rows are {found}; expected floating point, such as x.float()")
        flat = x.flatten(1)
        points = torch.tensor(self.q, device=x.device)[:, None] * (groups.sizes - 1).clamp(min=0)
        ranks = torch.stack([points.floor(), points.ceil()]).long()
        if self.interpolation == "nearest":
            ranks = points.round().long().expand(2, -1, -1)
        with torch.no_grad():
            rows = _rows_at_ranks(flat.detach(), groups, ranks.flatten(0, 1))
        # A row of zeros for empty groups: entries of `rows` count from there.
        padded = torch.cat([flat.new_zeros(1, flat.shape[1]), flat])
        lower, upper = padded.gather(0, rows.flatten(0, 1)).view(2, -1, flat.shape[1])
        fraction = points.frac().to(x.dtype).reshape(-1, 1)
        between = {
            "lower": lambda: lower,
            "nearest": lambda: lower,
            "higher": lambda: upper,
            "midpoint": lambda: lower / 2 + upper / 2,
            "linear": lambda: lower + (upper - lower) * fraction,
        }[self.interpolation]()
        answers = between.view(len(self.q), groups.num_groups, *x.shape[1:]).movedim(0, 1)
        empty = (groups.sizes == 0).view(-1, *[1] * x.dim())
        filled: Tensor = answers.masked_fill(empty, self.fill_value)
        # Side by side along the channels, as in PyG.
        return filled.movedim(1, -2).flatten(-2)

    def aggregate_static(self, x: Tensor, groups: StaticGroups) -> Tensor:
        """PyG's own, which reads no sizes."""
        module = pyg.QuantileAggregation(list(self.q), self.interpolation, self.fill_value)
        flat = x.flatten(1)
        out: Tensor = module.to(x.device)(flat, groups.index, dim_size=groups.num_groups, dim=0)
        shape = (groups.num_groups, len(self.q), *x.shape[1:])
        return out.reshape(shape).movedim(1, -2).flatten(-2)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.q}, {self.interpolation!r})"


class MedianAggregation(QuantileAggregation):
    """The median of each channel; of an even number of entries, the lower one of the middle two."""

    def __init__(self, fill_value: float = 0.0) -> None:
        super().__init__(0.5, "lower", fill_value)


def _rows_at_ranks(
    x: Shaped[Tensor, " n channels"], groups: Groups, ranks: Int[Tensor, " ranks groups"]
) -> Int[Tensor, " ranks groups channels"]:
    """The rows, counted from 1, that hold the entries of these ranks; 0 for empty groups.

    Groups of more than half the size of the largest are padded to that size and sorted, then those
    of more than a quarter, and so on. NaN comes last, and padding after it.
    """
    found = ranks.new_zeros(*ranks.shape, x.shape[1])
    starts = groups.sizes.cumsum(0) - groups.sizes
    width = int(groups.sizes.max()) if groups.num_groups else 0
    while width:
        members = ((groups.sizes > width // 2) & (groups.sizes <= width)).nonzero().flatten()
        places = torch.arange(width, device=x.device)
        outside = places >= groups.sizes[members, None]
        rows = groups.order[(starts[members, None] + places).clamp(max=len(groups.order) - 1)]
        entries = x[rows].masked_fill(outside[..., None], float("nan")).transpose(1, 2)
        sorted_places = entries.sort(dim=-1, stable=True).indices
        wanted = ranks[:, members].T[:, None].expand(-1, x.shape[1], -1)
        chosen = rows.gather(1, sorted_places.gather(2, wanted).flatten(1))
        found[:, members] = chosen.view(wanted.shape).permute(2, 0, 1) + 1
        width //= 2
    return found
