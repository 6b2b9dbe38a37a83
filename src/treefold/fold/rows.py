"""Rows to be folded: a tensor, a tuple of tensors, or rows of a table that repeat."""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from treefold.algebra import State, map_state, tensors_of
from treefold.fold.groups import Groups
from treefold.shapes import Int, Shaped


@dataclass(frozen=True)
class TableRows:
    """The rows `table[rows]`, not yet gathered.

    Where leaves repeat (integers from a vocabulary, node features along edges), an operator can
    work once per distinct row of the table instead of once per leaf. Indexing composes:
    `x[groups.order]` reorders `rows` and leaves the table alone.
    """

    table: Shaped[Tensor, " distinct *feature"]
    rows: Int[Tensor, " n"]

    @classmethod
    def of(cls, x: "Tensor | TableRows") -> "TableRows":
        """What has a table already, or a tensor as its own table, each row once."""
        if isinstance(x, TableRows):
            return x
        return cls(x, torch.arange(x.shape[0], device=x.device))

    def __getitem__(self, order: Int[Tensor, " m"]) -> "TableRows":
        return TableRows(self.table, self.rows[order])

    def __len__(self) -> int:
        return self.rows.numel()

    def gathered(self) -> Shaped[Tensor, " n *feature"]:
        """The rows themselves."""
        return self.table.index_select(0, self.rows)


Rows: TypeAlias = State | TableRows


def num_rows(x: Rows) -> int:
    """How many rows there are, checked to be the same in every tensor of the state."""
    if isinstance(x, TableRows):
        return len(x)
    counts = {tensor.shape[0] if tensor.dim() else None for tensor in tensors_of(x)}
    if len(counts) != 1 or None in counts:
        shapes = [tuple(tensor.shape) for tensor in tensors_of(x)]
        raise ValueError(f"the tensors of a state have shapes {shapes}; expected as many rows each")
    return counts.pop() or 0


def take_rows(x: Rows, index: Int[Tensor, " m"]) -> State:
    """The rows of `x` at `index`, gathered once."""
    if isinstance(x, TableRows):
        return x[index].gathered()
    return map_state(lambda tensor: tensor.index_select(0, index), x)


def require_rows(x: Rows, groups: Groups) -> None:
    """Refuse rows that are more or fewer than those of the groups."""
    if num_rows(x) != groups.num_rows:
        raise ValueError(f"there are {num_rows(x)} rows, but the groups are for {groups.num_rows}")
