"""Some keys of a table with all their rows that can be found in a moment, to measure with."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from treefold.distributed.columns import as_lists, check_rows
from treefold.distributed.limits import ROWS_AT_ONCE
from treefold.distributed.model_fold import ModelFold
from treefold.distributed.schema import plain_keys
from treefold.distributed.source import Piece, Source

NUM_KEYS = 32
"""Keys that are taken."""

MOST_READ = 1 << 19
"""Rows that are looked at, over at most `MOST_PIECES` row groups from all parts of the table."""

MOST_PIECES = 16

MOST_ROWS_PER_KEY = 256
"""Rows that are taken of a key; the spread of larger sets may be another."""


def sample_rows(source: Source, key: str, on: str, fold: ModelFold) -> pa.Table:
    """Good rows, as states, of some keys that have two or more rows, from all over the table.

    Keys are read first and rows after, so that keys are chosen that do recur: neighbouring rows
    may all have different ones. Null keys are left out.
    """
    pieces = _evenly(source.pieces, MOST_PIECES)
    kind = source.key_type
    seen = [plain_keys(batch.column(key)).cast(kind) for batch in _read(pieces, [key])]
    chosen = _recurring(pa.chunked_array(seen, kind))
    rows = pa.table({key: pa.array([], kind), on: as_lists(fold.table[:0].float())})
    for batch in _read(pieces, [key, on]):
        keys = plain_keys(batch.column(key)).cast(kind)
        mine = pc.is_in(keys, value_set=chosen)
        checked = check_rows(batch.column(on).filter(mine), fold)
        good = keys.filter(mine).take(pa.array(checked.good))
        found = pa.table({key: good, on: as_lists(fold.states(checked.x).float())})
        rows = _first_of_each_key(pa.concat_tables([rows, found]), key)
    return rows


def _evenly(things: list[Any], most: int) -> list[Any]:
    count = min(len(things), most)
    return [things[place * len(things) // count] for place in range(count)]


def _read(pieces: list[Piece], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Batch by batch, of each piece a fair share."""
    for piece in pieces:
        left = MOST_READ // len(pieces)
        try:
            with pq.ParquetFile(piece["file"]) as file:
                groups = [piece["row_group"]]
                for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=columns):
                    yield batch.slice(0, left)
                    left -= min(left, batch.num_rows)
                    if not left:
                        break
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"{piece['file']} cannot be read as Parquet: {error}") from None


def _recurring(keys: pa.ChunkedArray) -> pa.Array:
    """Up to `NUM_KEYS` of the keys that occur twice or more, from all over."""
    counted = keys.drop_null().value_counts()
    found = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    return found.take(pa.array(_evenly(list(range(len(found))), NUM_KEYS), pa.int64()))


def _first_of_each_key(rows: pa.Table, key: str) -> pa.Table:
    index = rows[key].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.argsort(index, kind="stable")
    begins = np.searchsorted(index[order], index[order])
    kept = np.sort(order[np.arange(len(order)) - begins < MOST_ROWS_PER_KEY])
    return rows.take(pa.array(kept))
