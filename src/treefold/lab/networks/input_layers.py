"""Features of nodes and edges as rows: embedded categories, or numbers through a linear map."""

import torch
from torch import Tensor, nn

from treefold.lab.tasks import Categories, Numbers
from treefold.shapes import Float, Int


class EmbeddedCategories(nn.Module):
    """A table for each column of whole numbers; the rows they choose are added up."""

    def __init__(self, categories: Categories, channels: int) -> None:
        super().__init__()
        self.tables = nn.ParameterList(torch.randn(size, channels) for size in categories.sizes)

    def forward(self, values: Int[Tensor, " n columns"]) -> Float[Tensor, " n channels"]:
        """A row for each row of categories."""
        return _chosen(list(self.tables), values)

    def times(
        self, values: Int[Tensor, " n columns"], weight: Float[Tensor, " channels outputs"]
    ) -> Float[Tensor, " n outputs"]:
        """`forward(values) @ weight`, with one product for each category and not for each row."""
        return _chosen([table @ weight for table in self.tables], values)


class MappedNumbers(nn.Module):
    """A linear map of the numbers."""

    def __init__(self, numbers: Numbers, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(numbers.channels, channels)

    def forward(self, values: Float[Tensor, " n columns"]) -> Float[Tensor, " n channels"]:
        """A row for each row of numbers."""
        _check_columns(values, self.linear.in_features)
        rows: Tensor = self.linear(values)
        return rows

    def times(
        self, values: Float[Tensor, " n columns"], weight: Float[Tensor, " channels outputs"]
    ) -> Float[Tensor, " n outputs"]:
        """`forward(values) @ weight`, as one narrow product."""
        _check_columns(values, self.linear.in_features)
        return torch.addmm(self.linear.bias @ weight, values, self.linear.weight.T @ weight)


InputLayer = EmbeddedCategories | MappedNumbers


def input_layer(kind: Categories | Numbers, channels: int) -> InputLayer:
    """The layer for a kind of input."""
    if isinstance(kind, Categories):
        return EmbeddedCategories(kind, channels)
    return MappedNumbers(kind, channels)


def _check_columns(values: Tensor, columns: int) -> None:
    if values.dim() != 2 or values.shape[1] != columns:
        raise ValueError(f"inputs have shape {tuple(values.shape)}; expected [n, {columns}]")


def _chosen(tables: list[Tensor], values: Tensor) -> Tensor:
    _check_columns(values, len(tables))
    pairs = zip(tables, values.unbind(1), strict=True)
    rows = [table.index_select(0, chosen) for table, chosen in pairs]
    return torch.stack(rows).sum(0) if len(rows) > 1 else rows[0]
