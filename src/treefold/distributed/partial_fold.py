"""The first half of folding a table: each part of a file gives one state per key."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from treefold.distributed.columns import as_lists, check_rows
from treefold.distributed.model_fold import ModelFold
from treefold.distributed.schema import (
    BAD,
    FILE,
    NO_KEY,
    NUM_BAD,
    NUM_ROWS,
    PROBLEM,
    ROW,
    STATE,
    plain_keys,
    without_nulls,
)
from treefold.fold import Groups

ROWS_AT_ONCE = 1 << 16
"""Rows that are in memory at once; a key gets one partial state for each such batch."""

MOST_BAD_PER_KEY = 100
"""Bad rows of a key that are listed with their position; all are counted."""


@dataclass(frozen=True)
class PartialFold:
    """Folds pieces of files; what Ray's workers run."""

    fold: ModelFold
    key: str
    on: str
    key_type: pa.DataType | None = None
    """The type that keys are cast to; None for that of the file, dictionaries decoded."""

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
        keys = plain_keys(batch.column(self.key))
        keys = keys if self.key_type is None else keys.cast(self.key_type)
        encoded = keys.dictionary_encode(null_encoding="encode")
        index = torch.from_numpy(encoded.indices.to_numpy(zero_copy_only=False).copy()).long()
        checked = check_rows(batch.column(self.on), self.fold)
        no_key = keys.is_null().to_numpy(zero_copy_only=False)
        problems = checked.problems | dict.fromkeys(np.flatnonzero(no_key).tolist(), "null key")
        good = torch.from_numpy(~no_key[checked.good])
        groups = Groups.from_index(index[checked.good][good], len(encoded.dictionary))
        states = self.fold.fold(checked.x[good], groups)
        lines: list[list[str]] = [[] for _ in range(groups.num_groups)]
        for place in sorted(problems):
            listed = lines[int(index[place])]
            if len(listed) < MOST_BAD_PER_KEY:
                line = {FILE: file, ROW: first_row + place, PROBLEM: problems[place]}
                listed.append(json.dumps(line) + "\n")
        num_bad = torch.bincount(index[list(problems)], minlength=groups.num_groups)
        return pa.table(
            {
                self.key: without_nulls(encoded.dictionary),
                NO_KEY: encoded.dictionary.is_null(),
                STATE: as_lists(states, groups.sizes > 0),
                NUM_ROWS: groups.sizes.numpy(),
                NUM_BAD: num_bad.numpy(),
                BAD: pa.array(["".join(listed) for listed in lines], pa.string()),
            }
        )
