"""The first half of folding a table: a part of a file to one state per key, bad rows set aside."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from treefold.reduction import Groups
from treefold.tables.columns import check_rows, check_type
from treefold.tables.model_fold import ModelFold

ROWS_AT_ONCE = 1 << 16
"""Rows that are in memory at once; a key gets one partial state for each such batch."""

STATE, NUM_ROWS, NUM_BAD, BAD = "state", "num_rows", "num_bad", "bad"
"""Columns of partial results, besides the key's."""


def find_pieces(source: Path, key: str, on: str, fold: ModelFold) -> list[dict[str, str | int]]:
    """One entry per row group of a Parquet file, or of all in a folder, with its first row."""
    files = sorted(source.rglob("*.parquet")) if source.is_dir() else [source]
    if not files or not source.exists():
        raise ValueError(f"{source} is no Parquet file and no folder with some; check the path")
    pieces: list[dict[str, str | int]] = []
    for path in files:
        metadata = _checked_metadata(path, key, on, fold)
        first = 0
        for number in range(metadata.num_row_groups):
            pieces.append({"file": str(path), "row_group": number, "first_row": first})
            first += metadata.row_group(number).num_rows
    return pieces


def _checked_metadata(path: Path, key: str, on: str, fold: ModelFold) -> pq.FileMetaData:
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None
    schema = metadata.schema.to_arrow_schema()
    for column in (key, on):
        if column not in schema.names:
            raise ValueError(f"{path} has no column {column!r}; it has {', '.join(schema.names)}")
    check_type(schema.field(on).type, fold, on)
    taken = {STATE, NUM_ROWS, NUM_BAD, BAD, "answer"}
    if key in taken:
        raise ValueError(f"the key is called {key!r}, as a column of the result; rename it")
    return metadata


@dataclass(frozen=True)
class PartialFold:
    """Folds pieces of files; what Ray's workers run."""

    fold: ModelFold
    key: str
    on: str

    def __call__(self, pieces: pa.Table) -> Iterator[pa.Table]:
        """A table of partial states for each batch of rows of each piece."""
        torch.set_num_threads(1)  # as many workers as cores
        for piece in pieces.to_pylist():
            first = piece["first_row"]
            with pq.ParquetFile(piece["file"]) as file:
                for batch in file.iter_batches(
                    ROWS_AT_ONCE, row_groups=[piece["row_group"]], columns=[self.key, self.on]
                ):
                    yield self.folded(batch, piece["file"], first)
                    first += batch.num_rows

    def folded(self, batch: pa.RecordBatch, file: str, first_row: int) -> pa.Table:
        """One row per key: its state (null if it has no good rows), and its counts of rows."""
        keys = batch.column(self.key)
        encoded = keys.dictionary_encode(null_encoding="encode")
        index = torch.from_numpy(encoded.indices.to_numpy(zero_copy_only=False).copy()).long()
        checked = check_rows(batch.column(self.on), self.fold)
        no_key = keys.is_null().to_numpy(zero_copy_only=False)
        problems = checked.problems | dict.fromkeys(np.flatnonzero(no_key).tolist(), "null key")
        good = torch.from_numpy(~no_key[checked.good])
        groups = Groups.from_index(index[checked.good][good], len(encoded.dictionary))
        states = self.fold.fold(checked.x[good], groups)
        bad_index = index[list(problems)]
        lines = [""] * groups.num_groups
        for place, group in zip(problems, bad_index.tolist(), strict=True):
            line = {"file": file, "row": first_row + place, "problem": problems[place]}
            lines[group] += json.dumps(line) + "\n"
        return pa.table(
            {
                self.key: encoded.dictionary,
                STATE: _as_lists(states, groups.sizes > 0),
                NUM_ROWS: groups.sizes.numpy(),
                NUM_BAD: torch.bincount(bad_index, minlength=groups.num_groups).numpy(),
                BAD: pa.array(lines, pa.string()),
            }
        )


def _as_lists(states: torch.Tensor, present: torch.Tensor) -> pa.Array:
    """A list per state, null where it is not present."""
    width = states.shape[1]
    return pa.FixedSizeListArray.from_arrays(
        pa.array(states.flatten().numpy()), width, mask=pa.array(~present.numpy())
    )
