"""A table folded on a Ray cluster: blocks wherever there is a core, keys exchanged by their hash.

What travels: the model, once; for each task and partition, the partial results of the keys whose
hash says so; and what each partition makes of them. Python handles no key by itself. A task whose
worker or node has died is done again, and so are those whose results were there.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import torch

from treefold.distributed.columns import one_array
from treefold.distributed.embedded import Watch
from treefold.distributed.keys import hash_of
from treefold.distributed.merging import Merged, merge, ranges_of
from treefold.distributed.model_fold import ModelFold
from treefold.distributed.partial import Partial, fold_block, joined_samples
from treefold.distributed.source import Piece, Source

LOCAL_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # A worker imports torch, which takes seconds; Ray would end idle ones after one second.
    "RAY_idle_worker_killing_time_threshold_ms": "600000",
}
"""Environment of a Ray that this process starts; variables that are set already win."""

ROWS_PER_TASK = 1 << 20
MOST_TASKS = 2_000
"""Tasks in which a table is read; each of them reads more rows if the table is larger."""

PARTITIONS_PER_CORE = 2
MOST_PARTS = 200_000
"""Parts of the exchange, one for each task and partition: one process keeps track of all."""

RETRIES = 10


@contextmanager
def fold_on_ray(
    source: Source, fold: ModelFold, decode: bool, address: str, watch: Watch
) -> Iterator[tuple[pa.Table, Iterator[Merged]]]:
    """A sample of rows, and the keys of a table partition by partition."""
    with on_ray(address):
        pieces = source.pieces(max(ROWS_PER_TASK, -(-source.num_rows // MOST_TASKS)))
        cores = int(ray.cluster_resources().get("CPU", 1))
        count = max(1, min(PARTITIONS_PER_CORE * cores, MOST_PARTS // len(pieces)))
        model, table = ray.put(fold), ray.put(source)
        read = _remote(_fold_piece, num_returns=count + 1)
        made = [read.remote(model, table, piece, count) for piece in pieces]
        samples = []
        for piece, (sample, *_) in zip(pieces, made, strict=True):
            samples.append(_result(sample))
            watch("read", piece.end - piece.begin, source.num_rows)
        join = _remote(_merge_partition)
        joined = [
            join.remote(model, decode, *(parts[number] for _, *parts in made))
            for number in range(count)
        ]
        del made  # what is merged may be forgotten
        yield joined_samples(samples), _merged(joined, watch, source.num_rows)


@contextmanager
def on_ray(address: str = "local") -> Iterator[None]:
    """Ray for as long as this lasts: the cluster at `address`, or one on this machine if "local".

    A Ray that is running in this process already is used and left running.
    """
    if ray.is_initialized():
        yield
        return
    for name, value in LOCAL_SETTINGS.items():
        os.environ.setdefault(name, value)
    here = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False, **here)
    except Exception as error:
        raise RuntimeError(
            f"cannot connect to the Ray cluster at {address}: {error}; if it is running, it may "
            "want a token, which is Ray's default: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or "
            "RAY_AUTH_TOKEN_PATH, a file) here as they are set on its head"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _fold_piece(fold: ModelFold, source: Source, piece: Piece, count: int) -> tuple[Any, ...]:
    """A sample of the rows of a piece, and for each partition the partial results of its blocks."""
    torch.set_num_threads(1)  # as many workers as cores
    parts: list[list[Partial]] = [[] for _ in range(count)]
    samples = []
    for block in source.blocks(piece):
        found, sample = fold_block(fold, block)
        samples.append(sample)
        cut = [_by_hash(table, count) for table in found]
        for number, part in enumerate(parts):
            part.append(Partial(*(tables[number] for tables in cut)))
    return joined_samples(samples), *parts


def _by_hash(table: pa.Table, count: int) -> list[pa.Table]:
    """The rows of each partition, in the order in which they are."""
    numbers = hash_of(one_array(table["key"])) % np.uint64(count)
    order = numbers.argsort(kind="stable")
    ends = np.cumsum(np.bincount(numbers.astype(np.int64), minlength=count))
    cuts = np.split(order, ends[:-1])
    return [table.take(pa.array(cut)).combine_chunks() for cut in cuts]


def _merge_partition(fold: ModelFold, decode: bool, *pieces: list[Partial]) -> list[Merged]:
    """The keys of a partition, range by range."""
    torch.set_num_threads(1)
    partials = [partial for piece in pieces for partial in piece]
    return [merge(fold, parts, decode) for parts in ranges_of(partials)]


def _merged(joined: list[Any], watch: Watch, num_rows: int) -> Iterator[Merged]:
    while joined:
        for merged in _result(joined.pop(0)):
            yield merged
            watch("folded", merged.num_rows + merged.num_bad, num_rows)


def _remote(work: Callable[..., Any], num_returns: int = 1) -> Any:
    return ray.remote(work).options(num_cpus=1, max_retries=RETRIES, num_returns=num_returns)


def _result(reference: Any) -> Any:
    """The result of a task; its errors are raised without Ray's own traceback."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        raise RuntimeError(f"a worker failed: {cause}") from error
