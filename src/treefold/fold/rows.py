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
    is_permutation: bool = False
    """Every row of the table is here exactly once: gradients are copied back, not added up."""

    @classmethod
    def of(cls, x: "Tensor | TableRows") -> "TableRows":
        """Rows of a table as they are; a tensor becomes its own table, each row once."""
        if isinstance(x, TableRows):
            return x
        return cls(x, torch.arange(x.shape[0], device=x.device), is_permutation=True)

    def __getitem__(self, order: Int[Tensor, " m"]) -> "TableRows":
        return TableRows(self.table, self.rows[order])

    def take(self, index: Int[Tensor, " m"], is_permutation: bool = False) -> "TableRows":
        """Take `self[index]`; `is_permutation` promises that it names every row exactly once."""
        rows = self.rows.index_select(0, index)
        return TableRows(self.table, rows, self.is_permutation and is_permutation)

    def __len__(self) -> int:
        return self.rows.numel()

    def gathered(self) -> Shaped[Tensor, " n *feature"]:
        """The rows themselves."""
        return _take(self.table, self.rows, self.is_permutation)


Rows: TypeAlias = State | TableRows


def num_rows(x: Rows) -> int:
    """The number of rows, checked to be the same in every tensor of the state."""
    if isinstance(x, TableRows):
        return x.rows.numel()
    if isinstance(x, Tensor) and x.dim():
        return x.shape[0]
    counts = {tensor.shape[0] if tensor.dim() else None for tensor in tensors_of(x)}
    if len(counts) != 1 or None in counts:
        shapes = [tuple(tensor.shape) for tensor in tensors_of(x)]
        raise ValueError(f"the tensors of a state have shapes {shapes}; expected as many rows each")
    return counts.pop() or 0


def require_rows(x: Rows, groups: Groups) -> None:
    """Refuse rows that are more or fewer than those of the groups."""
    if num_rows(x) != groups.num_rows:
        raise ValueError(f"there are {num_rows(x)} rows, but the groups are for {groups.num_rows}")


def take_rows(x: Rows, index: Int[Tensor, " m"], is_permutation: bool = False) -> State:
    """The rows of `x` at `index`, gathered once.

    Where `is_permutation` states that `index` names every row of `x` exactly once, gradients are
    copied back; else they are added up, one by one.
    """
    if isinstance(x, TableRows):
        return x.take(index, is_permutation).gathered()
    if isinstance(x, Tensor):
        return _take(x, index, is_permutation)
    return map_state(lambda tensor: _take(tensor, index, is_permutation), x)


def _take(tensor: Tensor, order: Tensor, is_permutation: bool) -> Tensor:
    """`tensor[order]`; of a permutation, as a copy to the places where rows go.

    The gradient of that is a gather.
    """
    if not (is_permutation and tensor.requires_grad):
        return tensor.index_select(0, order)
    numbers = torch.arange(order.numel(), device=order.device)
    places = torch.empty_like(order).scatter_(0, order, numbers)
    # All of the first is overwritten; `index_copy_`, which needs no copy of it, has no vmap.
    return tensor.detach().index_copy(0, places, tensor)
