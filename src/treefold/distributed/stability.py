"""Stability of the answers of a table: other bracketings of a sample of its keys.

The sample is some keys from all over the table, each with all of its rows that are found quickly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor

from treefold.distributed.columns import as_lists, check_rows, check_type
from treefold.distributed.model_fold import ModelFold, required_model
from treefold.distributed.partial_fold import ROWS_AT_ONCE
from treefold.distributed.schema import plain_keys
from treefold.distributed.source import Piece, Source
from treefold.fold import Groups
from treefold.incremental import BracketingStability, bracketing_stability

NUM_KEYS = 32
"""Keys that are taken."""

MOST_READ = 1 << 19
"""Rows that are looked at, over at most `MOST_PIECES` row groups from all parts of the table."""

MOST_PIECES = 16

MOST_ROWS_PER_KEY = 256
"""Rows that are taken of a key; larger sets may be less stable."""

NUM_BRACKETINGS = 8


@dataclass(frozen=True, eq=False)
class TableStability:
    """Stability of the keys of a sample; only keys with two or more rows count."""

    distances: BracketingStability
    """Between states, or with `decode` between logits."""
    num_keys: int
    num_rows: int
    """Rows of these keys in the sample."""
    changed: float | None = None
    """With `decode`: the share of answers of other trees that are not those of the balanced one."""

    def __str__(self) -> str:
        if not self.num_keys:
            return "not measured: the sample has no key with two or more rows"
        found = (
            f"{self.distances}, over {self.num_keys:,} keys with two or more rows "
            f"({self.num_rows:,} rows)"
        )
        if self.changed is None:
            return found
        return f"{found}; {self.changed:.2%} of answers change with the tree"


def table_stability(
    fold: ModelFold,
    sample: pa.Table,
    *,
    key: str,
    on: str,
    decode: bool = False,
) -> TableStability:
    """Measure the stability of the states of a sample's keys, or with `decode` of the answers.

    `sample` is an Arrow table small enough for one machine, best with all rows of some keys: such
    as `pa.Table.from_pandas(dataset.filter(expr="user < 50").to_pandas())`. Rows in a row may have
    different keys, and keys with one row do not count. Bad rows and null keys are left out.
    """
    required_model(fold)
    check_type(sample[on].type, fold, on)
    x, groups = _sets(sample, key, on, fold)
    answers: list[Tensor] = []

    def decoded(state: Tensor) -> Tensor:
        """Logits; the answers are saved, of the balanced tree first and then of the others."""
        answers.append(fold.answers(state))
        logits: Tensor = fold.decoder(state)
        return logits

    distances = bracketing_stability(
        fold.operator,
        fold.states(x),
        groups,
        NUM_BRACKETINGS,
        torch.Generator().manual_seed(0),
        decode=decoded if decode else None,
    )
    return TableStability(distances, groups.num_groups, groups.num_rows, _share_changed(answers))


def _share_changed(answers: list[Tensor]) -> float | None:
    if not answers or not len(answers[0]):
        return None
    balanced, *others = answers
    return float((torch.stack(others) != balanced).double().mean())


def _sets(sample: pa.Table, key: str, on: str, fold: ModelFold) -> tuple[Tensor, Groups]:
    """The good rows of keys that have two or more of them."""
    keys = plain_keys(sample[key].combine_chunks()).dictionary_encode()
    places = keys.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    checked = check_rows(sample[on], fold)
    index = torch.from_numpy(places.copy()).long()[checked.good]
    has_key = index >= 0
    x, index = checked.x[has_key], index[has_key]
    several = torch.bincount(index)[index] > 1
    _, index = torch.unique(index[several], return_inverse=True)
    return x[several], Groups.from_index(index)


def sample_rows(source: Source, key: str, on: str, fold: ModelFold) -> pa.Table:
    """Good rows, as states, of some keys that have two or more rows, from all over the table.

    Keys are read first and rows after, to choose keys that occur again: neighbouring rows may all
    have different ones. Null keys are left out.
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
    """Read batch by batch, an equal share of each piece."""
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
    """Up to `NUM_KEYS` of the keys that occur twice or more, from all over the table."""
    counted = keys.drop_null().value_counts()
    found = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    return found.take(pa.array(_evenly(list(range(len(found))), NUM_KEYS), pa.int64()))


def _first_of_each_key(rows: pa.Table, key: str) -> pa.Table:
    index = rows[key].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.argsort(index, kind="stable")
    begins = np.searchsorted(index[order], index[order])
    kept = np.sort(order[np.arange(len(order)) - begins < MOST_ROWS_PER_KEY])
    return rows.take(pa.array(kept))
