"""A Parquet table folded by key to another one: here on all cores, or on a Ray cluster."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from treefold.atomic import (
    check_writable,
    remove_leftovers,
    replaced_atomically,
    storage_errors,
)
from treefold.distributed.columns import one_array
from treefold.distributed.embedded import Watch, fold_here
from treefold.distributed.merging import Merged
from treefold.distributed.model_fold import ModelFold
from treefold.distributed.source import FILE, PROBLEM, Source, find_source
from treefold.distributed.stability import TableStability, table_stability

MEMORY = 1 << 30
"""Bytes that a fold on this machine takes for rows and states if it is not given another number."""

MOST_SHOWN = 100
"""Bad rows that a summary has."""


@dataclass(frozen=True)
class FoldSummary:
    """Result of folding a table: counts of rows, and some bad rows."""

    num_keys: int
    num_rows: int
    """Rows that were folded."""
    num_bad: int
    """Rows that were bad."""
    num_listed: int
    """Bad rows that are in the file of bad rows: at most 100 of each key."""
    bad: list[dict[str, Any]] = field(default_factory=list)
    """The first of these, each with key, file, row (from 0) and problem."""
    stability: TableStability | None = None
    """Stability under other merge orders, in the unit of what was written."""


def fold_table(
    model: object,
    source: str | Path,
    out: str | Path,
    *,
    key: str,
    on: str,
    decode: bool = False,
    states: bool = False,
    overwrite: bool = False,
    memory: int = MEMORY,
    address: str | None = None,
    watch: Watch = lambda stage, rows, total: None,
) -> FoldSummary:
    """Fold column `on` by `key`, from a Parquet file or folder to a Parquet file.

    `model` is a `ModelFold`, an `LCMAggregation`, an operator or a `FiniteMonoid`. The result has a
    row per key, sorted: its state, how many rows it stands for, how many were bad,
    and with `decode` the model's answer. Bad rows go to `<out>.bad.parquet`, if there are any. Both
    files are whole or not there, and only with `overwrite` take the place of others. What cannot be
    folded is a ValueError before any work begins.

    A column holds what the model takes, or with `states` what it, or another fold, has made. Blocks
    of 65,536 rows of a file are folded by key, and the states of a key are merged in the order of
    blocks, both over the model's own trees. On this machine that takes about `memory` bytes next to
    the program, with files next to `out` for what does not fit; with `address`, the Ray cluster
    there does the same. `watch` hears of progress.
    """
    fold = ModelFold.of(model)
    fold = fold.takes_states() if states else fold
    if decode:
        fold.answers(fold.none)
    source, out = Path(source), Path(out)
    table = find_source(source, key, on, fold)
    _check_outputs(table, out, overwrite)
    if address is None:
        plan = fold_here(table, fold, decode, memory, out.parent, watch)
    else:
        from treefold.distributed.cluster import fold_on_ray  # noqa: PLC0415 (Ray is optional)

        plan = fold_on_ray(table, fold, decode, address, watch)
    with _memory_errors(memory), plan as (sample, found):
        stability = table_stability(fold, sample, key="key", on="value", decode=decode)
        summary = write_result(found, key, table.num_rows, out)
    return replace(summary, stability=stability)


def write_result(found: Iterable[Merged], key: str, expected: int, out: Path) -> FoldSummary:
    """Write range by range: the result need not fit in memory. Bad rows go to a second file.

    A RuntimeError, and nothing written, if rows were lost or folded twice on the way.
    """
    num_keys = num_rows = num_bad = num_listed = 0
    bad: list[dict[str, Any]] = []
    with ExitStack() as stack:
        files = _Files(stack)
        for merged in found:
            files.write(out, _with_key(merged.keys, key))
            if len(merged.bad):
                listed = merged.bad.set_column(1, FILE, one_array(merged.bad[FILE]))
                listed = _with_key(listed.set_column(3, PROBLEM, one_array(listed[PROBLEM])), key)
                files.write(bad_rows_path(out), listed)
                bad += listed.slice(0, MOST_SHOWN - len(bad)).to_pylist()
            num_keys, num_listed = num_keys + len(merged.keys), num_listed + len(merged.bad)
            num_rows, num_bad = num_rows + merged.num_rows, num_bad + merged.num_bad
        if num_rows + num_bad != expected:
            raise RuntimeError(
                f"{num_rows + num_bad:,} rows were folded or found bad, but the table has "
                f"{expected:,}; was it changed meanwhile? Nothing was written: fold it again"
            )
        if not num_listed:
            bad_rows_path(out).unlink(missing_ok=True)  # of an earlier fold
    return FoldSummary(num_keys, num_rows, num_bad, num_listed, bad)


def bad_rows_path(out: Path) -> Path:
    """The file that lists the bad rows of a fold."""
    return out.with_name(f"{out.stem}.bad.parquet")


class _Files:
    """Parquet files that appear when the stack is left without an error, the first one last."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._writers: dict[Path, pq.ParquetWriter] = {}

    def write(self, path: Path, rows: pa.Table) -> None:
        """Add rows to a file."""
        with storage_errors(path):
            if path not in self._writers:
                temporary = self._stack.enter_context(replaced_atomically(path))
                writer = pq.ParquetWriter(temporary, rows.schema, use_dictionary=False)
                self._writers[path] = self._stack.enter_context(writer)
            self._writers[path].write_table(rows)


def _check_outputs(table: Source, out: Path, overwrite: bool) -> None:
    """Refuse to write to files that are to be read, or that are there already."""
    for path in (out, bad_rows_path(out)):
        if path.resolve() in table.files:
            raise ValueError(
                f"{path} would be written, and it is one of the files to fold; write elsewhere"
            )
        if path.exists() and not overwrite:
            raise ValueError(f"{path} exists; write elsewhere, or give overwrite=True, --overwrite")
    check_writable(out.parent)
    remove_leftovers(out.parent)


def _with_key(rows: pa.Table, key: str) -> pa.Table:
    return rows.rename_columns([key, *rows.column_names[1:]])


@contextmanager
def _memory_errors(memory: int) -> Iterator[None]:
    """Say what to do when memory is refused."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
            raise
        raise RuntimeError(
            f"out of memory, with a budget of {memory:,} bytes for rows and states; nothing was "
            "written: give a smaller budget (memory=, --memory), which folds on fewer threads and "
            "with files, or free some memory"
        ) from error
