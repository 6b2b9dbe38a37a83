"""The second half of folding a table: partial results of a range of keys, merged for all at once.

Merging follows the order of blocks. The states of a key are folded over the same kind of tree as
its rows in a block are, so the answer depends on the files alone: not on the memory, the cores or
the machines that it is computed with.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from treefold.distributed.columns import as_column, as_rows, one_array
from treefold.distributed.keys import first_of_runs, places_of, sizes_of, sort_by_key
from treefold.distributed.model_fold import ModelFold
from treefold.distributed.partial import Partial, fold_runs
from treefold.distributed.source import ANSWER, NUM_BAD, NUM_ROWS, ROWS_PER_BLOCK, STATE
from treefold.fold import Groups

MOST_BAD_PER_KEY = 100
"""Bad rows of a key that are listed with their position; all are counted."""


class Merged(NamedTuple):
    """Some keys with their states, counts and answers, and their bad rows."""

    keys: pa.Table
    bad: pa.Table

    @property
    def num_rows(self) -> int:
        """The number of rows that were folded."""
        return int(pc.sum(self.keys[NUM_ROWS]).as_py() or 0)

    @property
    def num_bad(self) -> int:
        """The number of bad rows, listed or not."""
        return int(pc.sum(self.keys[NUM_BAD]).as_py() or 0)


class _States(NamedTuple):
    """States by key and by the block that they come from."""

    keys: pa.Array
    blocks: np.ndarray
    states: Tensor
    counts: np.ndarray


def ranges_of(
    partials: Sequence[Partial], most_rows: int = ROWS_PER_BLOCK
) -> Iterator[list[Partial]]:
    """Cut partial results into ranges of keys with about `most_rows` rows and states each."""
    step = max(1, most_rows // (4 * max(1, len(partials))))
    keys = [[one_array(table["key"]) for table in partial] for partial in partials]
    seen = pa.concat_arrays([_every(step, each).drop_null() for some in keys for each in some])
    order, _ = sort_by_key(seen)
    splitters = _every(max(1, most_rows // step), seen.take(pa.array(order)))[1:].unique()
    cuts = [[[0, *places_of(splitters, each), len(each)] for each in some] for some in keys]
    for number in range(len(splitters) + 1):
        yield [
            Partial(
                *(
                    table.slice(cut[number], cut[number + 1] - cut[number])
                    for table, cut in zip(partial, of_partial, strict=True)
                )
            )
            for partial, of_partial in zip(partials, cuts, strict=True)
        ]


def merge(fold: ModelFold, parts: Sequence[Partial], decode: bool = False) -> Merged:
    """Merge the partial results of some keys, given block by block, in the order of blocks."""
    found = _in_order_of_blocks(_folded(fold, parts), _given([part.states for part in parts]))
    order, starts = sort_by_key(found.keys)
    sizes = sizes_of(starts, len(order))
    groups = Groups(torch.from_numpy(sizes), torch.from_numpy(order), len(order))
    states = fold.merge(found.states, groups)
    keys = found.keys.take(pa.array(order[starts]))
    counts = np.add.reduceat(found.counts[order], starts) if len(starts) else found.counts
    return _with_bad_rows(fold, keys, states, counts, [part.bad for part in parts], decode)


def _folded(fold: ModelFold, parts: Sequence[Partial]) -> _States:
    """The rows of each block, folded by key."""
    tables = [part.rows for part in parts]
    keys, blocks = _keys_of(tables), _blocks_of(tables)
    first_of_blocks = np.flatnonzero(np.diff(blocks, prepend=-1))
    starts = np.union1d(first_of_runs(keys), first_of_blocks)
    sizes = sizes_of(starts, len(blocks))
    x = as_rows([one_array(table["value"]) for table in tables])
    return _States(keys.take(pa.array(starts)), blocks[starts], fold_runs(fold, x, sizes), sizes)


def _given(tables: list[pa.Table]) -> _States:
    """The states that blocks have made."""
    states, counts = (as_rows([one_array(t[name]) for t in tables]) for name in ("value", "count"))
    return _States(_keys_of(tables), _blocks_of(tables), states, counts.numpy())


def _in_order_of_blocks(one: _States, other: _States) -> _States:
    if not len(other.keys):
        return one
    keys = pa.concat_arrays([one.keys, other.keys])
    blocks, counts = (
        np.concatenate(both) for both in ((one.blocks, other.blocks), (one.counts, other.counts))
    )
    order = blocks.argsort(kind="stable")
    states = torch.cat([one.states, other.states])[torch.from_numpy(order)]
    return _States(keys.take(pa.array(order)), blocks[order], states, counts[order])


def _with_bad_rows(
    fold: ModelFold,
    keys: pa.Array,
    states: Tensor,
    counts: np.ndarray,
    bad_tables: list[pa.Table],
    decode: bool,
) -> Merged:
    """Keys with bad rows alone join the others; they have no state."""
    bad = pa.concat_tables(bad_tables).combine_chunks()
    order, starts = sort_by_key(one_array(bad["key"]))
    sizes = sizes_of(starts, len(order))
    within = np.arange(len(order)) - np.repeat(starts, sizes)
    listed = bad.take(pa.array(order[within < MOST_BAD_PER_KEY]))
    both = pa.concat_arrays([keys, one_array(bad["key"]).take(pa.array(order[starts]))])
    order, starts = sort_by_key(both)
    place = np.empty(len(both), np.int64)
    place[order] = np.repeat(np.arange(len(starts)), sizes_of(starts, len(order)))
    good, wrong = place[: len(keys)], place[len(keys) :]
    present = torch.zeros(len(starts), dtype=torch.bool)
    present[torch.from_numpy(good)] = True
    all_states = states.new_zeros(len(starts), *states.shape[1:])
    all_states[torch.from_numpy(good)] = states
    num_rows, num_bad = np.zeros((2, len(starts)), np.int64)
    num_rows[good], num_bad[wrong] = counts, sizes
    columns = {
        "key": both.take(pa.array(order[starts])),
        STATE: as_column(all_states, present),
        NUM_ROWS: num_rows,
        NUM_BAD: num_bad,
    }
    if decode:
        columns[ANSWER] = as_column(fold.answers(all_states), present)
    return Merged(pa.table(columns), listed)


def _every(step: int, keys: pa.Array) -> pa.Array:
    return keys.take(pa.array(np.arange(0, len(keys), step)))


def _keys_of(tables: list[pa.Table]) -> pa.Array:
    return pa.concat_arrays([one_array(table["key"]) for table in tables])


def _blocks_of(tables: list[pa.Table]) -> np.ndarray:
    return np.repeat(np.arange(len(tables)), [len(table) for table in tables])
