"""A Parquet table folded by key on Ray: partial states where rows lie, merged by the operator."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray
import torch
from ray.data.aggregate import Sum

from treefold.atomic import check_writable, replaced_atomically
from treefold.cores import num_cores
from treefold.distributed.aggregate import MonoidAggregate
from treefold.distributed.bad_rows import JoinedLines, bad_rows_path, listed_rows, write_bad_rows
from treefold.distributed.model_fold import ModelFold, required_model
from treefold.distributed.partial_fold import MOST_BAD_PER_KEY, PartialFold
from treefold.distributed.schema import (
    ANSWER,
    BAD,
    FILE,
    NO_KEY,
    NUM_BAD,
    NUM_ROWS,
    ROW,
    STATE,
)
from treefold.distributed.source import Source, find_source, refuse_to_overwrite
from treefold.distributed.stability import TableStability, sample_rows, table_stability

LOCAL_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # A worker imports torch, which takes seconds; Ray would end idle ones after one second.
    "RAY_idle_worker_killing_time_threshold_ms": "600000",
    "RAY_num_workers_soft_limit": str(4 * (os.cpu_count() or 1)),
}
"""Environment of a Ray that this process starts; variables that are set already win."""

MOST_TASKS = 10_000
"""Tasks in which a table is read, however many row groups it has."""

PARTITIONS_PER_CORE = 2
"""Parts into which keys are divided to be merged, unless there are fewer row groups."""


@dataclass(frozen=True)
class FoldSummary:
    """Result of folding a table: counts of rows, and the bad rows."""

    num_keys: int
    num_rows: int
    """Rows that were folded."""
    num_bad: int
    """Rows that were bad."""
    bad: list[dict[str, Any]] = field(default_factory=list)
    """The bad rows, each with key, file, row (from 0) and problem.

    At most 100 for each key, to fit in memory even if a whole column is bad; see `num_unnamed`.
    """
    stability: TableStability | None = None
    """Stability of the answers under the cuts and merges of an engine, measured on some keys."""

    @property
    def num_unnamed(self) -> int:
        """Bad rows that are counted, and not among `bad`."""
        return self.num_bad - len(self.bad)


def fold_table(
    fold: ModelFold,
    source: str | Path,
    out: str | Path,
    *,
    key: str,
    on: str,
    decode: bool = False,
    address: str | None = None,
) -> FoldSummary:
    """Fold column `on` by `key`, from a Parquet file or folder to a Parquet file.

    The result has a row per key: its state, how many rows it stands for, how many were bad, and
    with `decode` the model's answer. Bad rows go to `<out>.bad.parquet`, if there are any. Both
    files are whole or not there. What cannot be folded is a ValueError before any work begins, and
    so is an `out` that is among the files to fold. Runs on the Ray that this process has started,
    or else on that of `address`, or on one of its own. Workers must see the files under the same
    absolute path; what a worker was doing when it died is done again by another.
    """
    required_model(fold)
    source, out = Path(source), Path(out)
    table = find_source(source, key, on, fold)
    refuse_to_overwrite(table, out, bad_rows_path(out))
    check_writable(out.parent)
    sample = sample_rows(table, key, on, fold)
    stability = table_stability(fold, sample, key=key, on=on, decode=decode)
    with nullcontext() if ray.is_initialized() else on_ray(address):
        folded = fold_pieces(table, fold, key=key, on=on, decode=decode)
        found = write_result(_batches(folded), key, out, table.num_rows)
    return replace(found, stability=stability)


def fold_pieces(table: Source, fold: ModelFold, *, key: str, on: str, decode: bool) -> Any:
    """The dataset with a row per key, from the pieces of a table, on the Ray that is running."""
    partial = ray.data.from_items(
        table.pieces, override_num_blocks=min(len(table.pieces), MOST_TASKS)
    ).map_batches(
        PartialFold(fold, key, on, table.key_type), batch_format="pyarrow", batch_size=None
    )
    num_cores = int(ray.cluster_resources().get("CPU", 1))
    merged = merged_by_key(partial, fold, key, num_partitions(num_cores, len(table.pieces)))
    return merged.map_batches(
        Finish(fold if decode else None, fold.channels, key, table.key_type),
        batch_format="pyarrow",
    )


def merged_by_key(partial: Any, fold: ModelFold, key: str, num_partitions: int) -> Any:
    """The dataset with a row per key, from one of partial states as `PartialFold` makes them."""
    return partial.groupby([key, NO_KEY], num_partitions=num_partitions).aggregate(
        MonoidAggregate(fold, on=STATE, name=STATE, skip_nulls=True),
        Sum(NUM_ROWS, alias_name=NUM_ROWS),
        Sum(NUM_BAD, alias_name=NUM_BAD),
        JoinedLines(BAD, MOST_BAD_PER_KEY),
    )


def write_result(batches: Iterator[pa.Table], key: str, out: Path, expected: int) -> FoldSummary:
    """Write batch by batch: the result need not fit in memory. Bad rows go to a second file.

    A RuntimeError, and nothing written, if rows were lost or folded twice on the way.
    """
    num_keys = num_rows = num_bad = 0
    bad: list[dict[str, Any]] = []
    kind = pa.null()
    writer: pq.ParquetWriter | None = None
    with replaced_atomically(out) as temporary:
        try:
            for batch in batches:
                bad += listed_rows(batch, key)
                kind = batch.schema.field(key).type
                batch = batch.drop_columns([BAD])
                writer = writer or pq.ParquetWriter(temporary, batch.schema)
                writer.write_table(batch)
                num_keys += batch.num_rows
                num_rows += sum(batch[NUM_ROWS].to_pylist())
                num_bad += sum(batch[NUM_BAD].to_pylist())
        finally:
            if writer is not None:
                writer.close()
        if num_rows + num_bad != expected:
            raise RuntimeError(
                f"{num_rows + num_bad:,} rows were folded or found bad, but the table has "
                f"{expected:,}; was it changed meanwhile? Nothing was written: fold it again"
            )
    bad.sort(key=lambda line: (line[FILE], line[ROW]))
    write_bad_rows(bad, key, kind, bad_rows_path(out))
    return FoldSummary(num_keys, num_rows, num_bad, bad)


@dataclass(frozen=True)
class Finish:
    """Brings columns to their final types, and adds the model's answers."""

    fold: ModelFold | None
    channels: int
    key: str
    key_type: pa.DataType

    def __call__(self, batch: pa.Table) -> pa.Table:
        """States as lists of fixed length, keys as in the source; no state has no answer."""
        # Where all values of a column are null, what Ray has merged has the type `null`.
        keys = pc.if_else(batch[NO_KEY], None, batch[self.key]).cast(self.key_type)
        batch = batch.set_column(batch.column_names.index(self.key), self.key, keys)
        batch = batch.drop_columns([NO_KEY])
        kind = pa.list_(pa.float32(), self.channels)
        states = batch[STATE].combine_chunks().cast(pa.list_(pa.float32())).cast(kind)
        batch = batch.set_column(batch.column_names.index(STATE), STATE, states)
        if self.fold is None:
            return batch
        valid = states.is_valid().to_numpy(zero_copy_only=False)
        answers = np.zeros(len(states), dtype=np.int64)
        numbers = states.drop_null().flatten().to_numpy(zero_copy_only=False)
        found = self.fold.answers(torch.from_numpy(numbers.copy()).view(-1, self.channels))
        answers[valid] = found.numpy()
        return batch.append_column(ANSWER, pa.array(answers, mask=~valid))


def num_partitions(num_cores: int, num_pieces: int) -> int:
    """Enough for all cores to merge, and no more than there is to merge."""
    return max(1, min(PARTITIONS_PER_CORE * num_cores, num_pieces))


@contextmanager
def on_ray(address: str | None = None, progress: bool = True) -> Iterator[None]:
    """Ray for as long as this lasts: the cluster at `address`, or one on this machine.

    A Ray that is running in this process already is used and left running.
    """
    ours = not ray.is_initialized()
    if ours:
        for name, value in LOCAL_SETTINGS.items():
            os.environ.setdefault(name, value)
        here: dict[str, Any] = {"num_cpus": num_cores(), "include_dashboard": False}
        ray.init(
            address=address or "local",
            logging_level="ERROR",
            log_to_driver=False,
            **({} if address else here),
        )
    logging.getLogger("ray.data").setLevel(logging.WARNING)  # it logs every plan
    context = ray.data.DataContext.get_current()
    before, context.enable_progress_bars = context.enable_progress_bars, progress
    try:
        yield
    finally:
        context.enable_progress_bars = before
        if ours:
            ray.shutdown()


def _batches(dataset: Any) -> Iterator[pa.Table]:
    """The dataset, batch by batch; errors of workers are raised without Ray's own traceback."""
    try:
        yield from dataset.iter_batches(batch_size=None, batch_format="pyarrow")
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        while isinstance(cause.__cause__, Exception):
            cause = cause.__cause__
        raise RuntimeError(f"a worker failed: {cause}") from error
