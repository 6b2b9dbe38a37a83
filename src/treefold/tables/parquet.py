"""A Parquet table folded by key on Ray: partial states where rows lie, merged by the operator."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.data.aggregate import Sum

from treefold.living import BracketingSpread
from treefold.records import check_writable, replaced_atomically
from treefold.tables.aggregate import JoinedLines, MonoidAggregate
from treefold.tables.finish import Finish
from treefold.tables.loading import load_fold
from treefold.tables.model_fold import ModelFold
from treefold.tables.partial_fold import BAD, NUM_BAD, NUM_ROWS, STATE, PartialFold, find_pieces
from treefold.tables.sample_spread import spread_of_first_rows

MOST_BAD_PER_KEY = 100
"""Bad rows of a key that are named with their position; all are counted."""

MOST_TASKS = 10_000
"""Tasks in which a table is read, however many row groups it has."""


LOCAL_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # A worker imports torch, which takes seconds; Ray would end idle ones after one second.
    "RAY_idle_worker_killing_time_threshold_ms": "600000",
    "RAY_num_workers_soft_limit": str(4 * (os.cpu_count() or 1)),
}
"""For a Ray of our own, unless the environment says otherwise."""


@dataclass(frozen=True)
class FoldSummary:
    """What became of the rows of a table."""

    num_keys: int
    num_rows: int
    """Rows that were folded."""
    num_bad: int
    """Rows that were not."""
    bad: list[dict[str, Any]] = field(default_factory=list)
    """Where they are, and what is wrong: key, file, row (from 0) and problem."""
    spread: BracketingSpread | None = None
    """How far answers move with the cuts and merges of an engine, measured on the first rows."""


def fold_table(
    checkpoint: str | Path | ModelFold,
    source: Path,
    out: Path,
    *,
    key: str,
    on: str,
    decode: bool = False,
) -> FoldSummary:
    """Fold column `on` by `key`, from a Parquet file or folder to a Parquet file.

    The result has a row per key: its state, how many rows it stands for, how many were bad, and
    with `decode` the model's answer. Bad rows go to `<out>.bad.parquet`, if there are any. Both
    files are whole or not there. Runs on the Ray that is running, or else on one of its own; what
    a worker was doing when it died is done again by another.
    """
    fold = checkpoint if isinstance(checkpoint, ModelFold) else load_fold(checkpoint)
    pieces = find_pieces(source, key, on, fold)
    check_writable(out.parent)
    if not pieces:
        raise ValueError(f"{source} has no rows; there is nothing to fold")
    partial = ray.data.from_items(
        pieces, override_num_blocks=min(len(pieces), MOST_TASKS)
    ).map_batches(PartialFold(fold, key, on), batch_format="pyarrow", batch_size=None)
    merged = merged_by_key(partial, fold, key, _num_partitions(len(pieces)))
    finished = merged.map_batches(
        Finish(fold if decode else None, fold.channels), batch_format="pyarrow"
    )
    summary = write_result(_batches(finished), key, out)
    return replace(summary, spread=spread_of_first_rows(fold, pieces[0], key, on, decode))


def merged_by_key(partial: Any, fold: ModelFold, key: str, num_partitions: int) -> Any:
    """The dataset with a row per key, from one of partial states as `PartialFold` makes them."""
    return partial.groupby(key, num_partitions=num_partitions).aggregate(
        MonoidAggregate(fold, on=STATE, name=STATE, skip_nulls=True),
        Sum(NUM_ROWS, alias_name=NUM_ROWS),
        Sum(NUM_BAD, alias_name=NUM_BAD),
        JoinedLines(BAD, MOST_BAD_PER_KEY),
    )


def write_result(batches: Iterator[pa.Table], key: str, out: Path) -> FoldSummary:
    """Write batch by batch, so that the result need not fit in memory; bad rows beside it."""
    num_keys = num_rows = num_bad = 0
    bad: list[dict[str, Any]] = []
    writer: pq.ParquetWriter | None = None
    with replaced_atomically(out) as temporary:
        try:
            for batch in batches:
                for name, text in zip(batch[key].to_pylist(), batch[BAD].to_pylist(), strict=True):
                    bad += [{key: name, **json.loads(line)} for line in text.splitlines()]
                batch = batch.drop_columns([BAD])
                writer = writer or pq.ParquetWriter(temporary, batch.schema)
                writer.write_table(batch)
                num_keys += batch.num_rows
                num_rows += sum(batch[NUM_ROWS].to_pylist())
                num_bad += sum(batch[NUM_BAD].to_pylist())
        finally:
            if writer is not None:
                writer.close()
    bad.sort(key=lambda line: (line["file"], line["row"]))
    beside = bad_rows_path(out)
    if bad:
        with replaced_atomically(beside) as temporary:
            pq.write_table(pa.Table.from_pylist(bad), temporary)
    else:
        beside.unlink(missing_ok=True)  # of an earlier fold
    return FoldSummary(num_keys, num_rows, num_bad, bad)


def bad_rows_path(out: Path) -> Path:
    """Where the bad rows of a fold are named."""
    return out.with_name(f"{out.stem}.bad.parquet")


@contextmanager
def on_ray(address: str | None = None, progress: bool = True) -> Iterator[None]:
    """Ray for as long as this lasts: the cluster at `address`, or one on this machine.

    A Ray that is running in this process already is used and left running.
    """
    ours = not ray.is_initialized()
    if ours:
        for name, value in LOCAL_SETTINGS.items():
            os.environ.setdefault(name, value)
        here: dict[str, Any] = {"num_cpus": _num_cores(), "include_dashboard": False}
        ray.init(
            address=address or "local",
            logging_level="ERROR",
            log_to_driver=False,
            **({} if address else here),
        )
    context = ray.data.DataContext.get_current()
    before, context.enable_progress_bars = context.enable_progress_bars, progress
    try:
        yield
    finally:
        context.enable_progress_bars = before
        if ours:
            ray.shutdown()


def _batches(dataset: Any) -> Iterator[pa.Table]:
    """The dataset, batch by batch; what went wrong on a worker comes without its long way here."""
    try:
        yield from dataset.iter_batches(batch_size=None, batch_format="pyarrow")
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        while isinstance(cause.__cause__, Exception):
            cause = cause.__cause__
        raise RuntimeError(f"a worker failed: {cause}") from error


def _num_partitions(num_pieces: int) -> int:
    """Enough for all cores to merge, and no more than there is to merge."""
    return max(1, min(2 * int(ray.cluster_resources().get("CPU", 1)), num_pieces))


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
