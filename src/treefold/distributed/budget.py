"""Folds in a given amount of memory: chunk by chunk, and large groups piece by piece.

A chunk is whole groups, or a piece of a group that is larger than the budget. Pieces are cut where
the balanced tree is cut, so the tree is the one that all rows at once would be folded over.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.algebra import Monoid
from treefold.fold import (
    INTEGER_TYPES,
    Groups,
    Subtrees,
    TableRows,
    TreePlan,
    cut_trees,
    plan_joining,
    tree_reduce,
)
from treefold.shapes import Float, Int

STATES_PER_ROW = 3
"""Rows that a fold holds per row: itself, the node it ends in, and the operator's workspace."""

INDEX_BYTES = 48
"""Bytes of indices per row: where it is, its place in the plan, and its meetings."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows that are folded at once, and the parts they become."""

    rows: slice
    parts: slice
    plan: TreePlan


@dataclass(frozen=True, eq=False)
class ChunkedPlan:
    """A plan to fold groups in chunks; made once for a graph, used by every layer of a model."""

    order: Int[Tensor, " n"]
    """The rows, group by group."""
    chunks: tuple[Chunk, ...]
    join: TreePlan
    """From parts to groups: most groups are one part."""

    @property
    def num_applications(self) -> int:
        """The number of applications of the operator."""
        return self.join.num_applications + sum(c.plan.num_applications for c in self.chunks)

    @torch.no_grad()
    def fold(
        self, op: Monoid, table: Float[Tensor, " distinct *feature"], rows: Tensor
    ) -> Float[Tensor, " groups *feature"]:
        """Fold the rows `table[rows]`, without gradients, one chunk in memory at a time."""
        if rows.numel() != self.order.numel():
            raise ValueError(
                f"there are {rows.numel()} rows, but the plan is for {self.order.numel()}"
            )
        _require_places(rows, table.shape[0])
        parts = table.new_empty(self.join.num_rows, *table.shape[1:])
        for chunk in self.chunks:
            here = rows.index_select(0, self.order[chunk.rows])
            parts[chunk.parts] = _tensor(tree_reduce(op, TableRows(table, here), chunk.plan))
        return _tensor(tree_reduce(op, parts, self.join))


def plan_chunks(groups: Groups, rows_per_chunk: int) -> ChunkedPlan:
    """Plan chunks of at most `rows_per_chunk` rows each, for any operator and any width."""
    if rows_per_chunk < 2:
        raise ValueError(f"{rows_per_chunk} rows per chunk; expected at least 2")
    parts = _parts(groups.sizes, rows_per_chunk)
    ends = parts.sizes.cumsum(0)
    chunks = []
    first_part = first_row = 0
    while first_part < len(parts):
        limit = first_row + rows_per_chunk
        last_part = int(torch.searchsorted(ends, limit, right=True))
        last_row = int(ends[last_part - 1])
        here = slice(first_part, last_part)
        chunks.append(Chunk(slice(first_row, last_row), here, parts[here].plan()))
        first_part, first_row = last_part, last_row
    join = plan_joining(parts, parts.runs, groups.num_groups)
    return ChunkedPlan(groups.order, tuple(chunks), join)


def rows_within(budget_bytes: int, table: Tensor) -> int:
    """Count the rows like those of `table` that can be folded at once in `budget_bytes`."""
    row_bytes = table[:1].numel() * table.element_size() if len(table) else table.element_size()
    needed = STATES_PER_ROW * row_bytes + INDEX_BYTES
    if budget_bytes < 2 * needed:
        raise ValueError(
            f"a budget of {budget_bytes:,} bytes is less than two rows need; give at least "
            f"{2 * needed:,}, and rather some millions"
        )
    return budget_bytes // needed


def fold_in_budget(
    op: Monoid,
    table: Float[Tensor, " distinct *feature"],
    rows: Tensor,
    groups: Groups,
    budget_bytes: int,
) -> Float[Tensor, " groups *feature"]:
    """Fold the rows `table[rows]` by group, with about `budget_bytes` beyond input and output.

    The same tree and the same answer as at once, without gradients. For several folds over the
    same groups, `plan_chunks` once and `fold` often.
    """
    if rows.numel() != groups.num_rows:
        raise ValueError(f"there are {rows.numel()} rows, but the groups are for {groups.num_rows}")
    return plan_chunks(groups, rows_within(budget_bytes, table)).fold(op, table, rows)


def _require_places(rows: Tensor, num_distinct: int) -> None:
    if rows.dtype not in INTEGER_TYPES or rows.dim() != 1:
        raise ValueError(
            f"rows are {rows.dtype} of shape {tuple(rows.shape)}; expected integers in one "
            "dimension, the places of rows in the table (`rows.long()` makes them, and cuts off)"
        )
    lowest, highest = map(int, torch.aminmax(rows)) if rows.numel() else (0, -1)
    if lowest < 0 or highest >= num_distinct:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(
            f"rows hold {wrong}, but the table has {num_distinct} rows; expected places from 0 to "
            f"{num_distinct - 1}"
        )


def _parts(sizes: Tensor, most: int) -> Subtrees:
    """Whole groups, and pieces of those that have more than `most` rows, in order of rows."""
    # 2^d pieces of n rows have at most ceil(n / 2^d) rows each.
    depths = torch.zeros_like(sizes)
    while bool((too_large := -(-sizes >> depths) > most).any()):
        depths = depths + too_large
    pieces = 1 << depths
    totals = sizes.repeat_interleave(pieces)
    group = torch.repeat_interleave(pieces)
    place = torch.arange(group.numel(), device=sizes.device) - (pieces.cumsum(0) - pieces)[group]
    depth = depths[group]
    parts = cut_trees(totals, (place * totals) >> depth, ((place + 1) * totals) >> depth)
    return Subtrees(parts.totals, parts.heights, parts.places, group[parts.runs])


def _tensor(state: object) -> Tensor:
    assert isinstance(state, Tensor)
    return state
