"""The first half of folding a table: each block of rows gives at most one state per key.

A key with few rows in a block sends the rows themselves where they are smaller than a state; they
are folded when states are merged, over the same trees.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from treefold.distributed.columns import CheckedRows, as_column, check_rows
from treefold.distributed.keys import first_of_runs, hash_of, sizes_of, sort_by_key
from treefold.distributed.model_fold import ModelFold
from treefold.distributed.source import FILE, PROBLEM, ROW, ROWS_PER_BLOCK, Block
from treefold.fold import Groups

SAMPLED_KEYS, SAMPLED_ROWS = 64, 256
"""Keys of which rows are kept to measure other merge orders, and rows of each."""


class Partial(NamedTuple):
    """Tables of a block or of a range of its keys, sorted by key."""

    rows: pa.Table
    """`key` and `value`."""
    states: pa.Table
    """`key`, `value` (a state) and `count` (of its rows)."""
    bad: pa.Table
    """`key` (null for rows without one), `file`, `row` and `problem`."""

    @property
    def num_rows(self) -> int:
        """The number of rows that these stand for, bad ones included."""
        return len(self.rows) + (pc.sum(self.states["count"]).as_py() or 0) + len(self.bad)


def fold_block(fold: ModelFold, block: Block) -> tuple[Partial, pa.Table]:
    """The rows of a block, folded by key where that makes less of them; and a sample of rows.

    The sample is of the keys with the lowest hashes: it does not depend on how blocks are cut.
    """
    keys, is_key = _checked_keys(block.keys)
    checked = check_rows(block.values, fold)
    has_key = np.flatnonzero(is_key[checked.good])
    order, starts = sort_by_key(keys.take(pa.array(checked.good[has_key])))
    good = keys.take(pa.array(checked.good[has_key[order]]))
    x = checked.x[torch.from_numpy(has_key[order])]
    sizes = sizes_of(starts, len(order))
    many = sizes * row_bytes(x) > row_bytes(fold.none) + 8
    are_many = np.repeat(many, sizes)
    states = fold_runs(fold, x[torch.from_numpy(are_many)], sizes[many])
    places, few = pa.array(starts[many]), pa.array(~are_many)
    rows = pa.table({"key": good, "value": as_column(x)})
    folded = {"key": good.take(places), "value": as_column(states), "count": sizes[many]}
    bad = _bad_rows(block, keys, is_key, checked)
    tables = rows.filter(few), pa.table(folded), bad
    return Partial(*(table.combine_chunks() for table in tables)), lowest_keys(rows)


def fold_runs(fold: ModelFold, x: Tensor, sizes: np.ndarray) -> Tensor:
    """Fold consecutive rows, `sizes[i]` of them to state i, about as many at once as in a block."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    states, first = [fold.none], 0
    while first < len(sizes):
        last = max(first + 1, np.searchsorted(ends, ends[first] + ROWS_PER_BLOCK, "right") - 1)
        groups = Groups.from_sizes(torch.from_numpy(sizes[first:last]))
        states.append(fold.fold(x[ends[first] : ends[last]], groups))
        first = last
    return torch.cat(states)


def lowest_keys(rows: pa.Table) -> pa.Table:
    """A sample of rows sorted by `key`: the first some of the keys with the lowest hashes."""
    keys = rows["key"].combine_chunks()
    starts = first_of_runs(keys)
    sizes, hashes = sizes_of(starts, len(keys)), hash_of(keys.take(pa.array(starts)))
    chosen = np.sort(hashes.argsort(kind="stable")[:SAMPLED_KEYS])
    counts = np.minimum(sizes[chosen], SAMPLED_ROWS)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows.take(pa.array(np.repeat(starts[chosen], counts) + within))


def joined_samples(samples: list[pa.Table]) -> pa.Table:
    """The sample of several blocks together, in their order."""
    rows = pa.concat_tables(samples).combine_chunks()
    order, _ = sort_by_key(rows["key"].combine_chunks())
    return lowest_keys(rows.take(pa.array(order)))


def row_bytes(rows: Tensor) -> int:
    """The bytes of one row."""
    return rows[:0].element_size() * int(np.prod(rows.shape[1:]))


def _checked_keys(keys: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Keys with null for NaN, and which of them are keys."""
    if pa.types.is_floating(keys.type):
        keys = pc.if_else(pc.is_nan(keys), pa.scalar(None, keys.type), keys)
    return keys, keys.is_valid().to_numpy(zero_copy_only=False)


def _bad_rows(block: Block, keys: pa.Array, is_key: np.ndarray, checked: CheckedRows) -> pa.Table:
    """Problems of rows that are not folded; those without a key are listed as such."""
    without, has_key = np.flatnonzero(~is_key), is_key[checked.bad]
    was_null = block.keys.take(pa.array(without)).is_null()
    problems = checked.problems.filter(pa.array(has_key))
    problems = pa.concat_arrays([problems, pc.if_else(was_null, "null key", "NaN key")])
    places = np.concatenate([checked.bad[has_key], without])
    order, _ = sort_by_key(keys.take(pa.array(places)))
    places, problems = places[order], problems.take(pa.array(order))
    files = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(places), np.int32)), [block.file])
    return pa.table(
        {
            "key": keys.take(pa.array(places)),
            FILE: files,
            ROW: block.first_row + places,
            PROBLEM: problems.dictionary_encode(),
        }
    )
