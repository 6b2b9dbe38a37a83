"""A table folded on this machine: blocks on all cores, partial results in memory or on disk."""

import mmap
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TypeAlias, TypeVar

import pyarrow as pa
import torch

from treefold.atomic import storage_errors
from treefold.cores import num_cores
from treefold.distributed.merging import Merged, merge, ranges_of
from treefold.distributed.model_fold import ModelFold
from treefold.distributed.partial import Partial, fold_block, joined_samples, row_bytes
from treefold.distributed.source import ROWS_PER_BLOCK, Source

Item = TypeVar("Item")
Result = TypeVar("Result")

Watch: TypeAlias = Callable[[str, int, int], None]
"""Called with a stage of the work, "read" or "folded", how many more rows are done, and of all."""


@contextmanager
def fold_here(
    source: Source, fold: ModelFold, decode: bool, memory: int, folder: Path, watch: Watch
) -> Iterator[tuple[pa.Table, Iterator[Merged]]]:
    """A sample of rows, and the keys of a table range by range, in about `memory` bytes.

    Partial results that take more than half of that are put into files in `folder`. These have no
    names: they are gone with this process, however it ends.
    """
    held, samples = Held(memory // 2, folder), list[pa.Table]()
    with _one_thread_each(_num_threads(fold, memory)) as pool:
        whole = source.pieces(source.num_rows)
        blocks = (block for piece in whole for block in source.blocks(piece))
        for found, sample in _in_order(pool, partial(fold_block, fold), blocks):
            held.add(found)
            samples = [joined_samples([*samples, sample])]
            watch("read", found.num_rows, source.num_rows)
        yield (
            samples[0],
            _merged(pool, held, partial(merge, fold, decode=decode), watch, source.num_rows),
        )


def _merged(
    pool: ThreadPoolExecutor,
    held: "Held",
    work: Callable[[list[Partial]], Merged],
    watch: Watch,
    num_rows: int,
) -> Iterator[Merged]:
    for merged in _in_order(pool, work, ranges_of(held.partials)):
        yield merged
        held.forget()
        watch("folded", merged.num_rows + merged.num_bad, num_rows)


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """The results of all items, in their order; only some are begun at once."""
    running: deque[Future[Result]] = deque()
    for item in items:
        if len(running) > num_cores():  # as many may wait as work
            yield running.popleft().result()
        running.append(pool.submit(work, item))
    while running:
        yield running.popleft().result()


def _num_threads(fold: ModelFold, memory: int) -> int:
    """As many as there are cores, if a quarter of the memory can hold the states of their rows."""
    states = 2 * ROWS_PER_BLOCK * row_bytes(fold.none)  # of rows, and of the nodes above them
    return max(1, min(num_cores(), memory // 4 // states))


@contextmanager
def _one_thread_each(num_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads whose operations are not shared between further threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(num_threads)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


class Held:
    """Partial results, the older ones on disk once all together take more than `most_bytes`."""

    def __init__(self, most_bytes: int, folder: Path) -> None:
        self.partials: list[Partial] = []
        self._most, self._folder = most_bytes, folder
        self._num_bytes = self._num_stored = 0
        self._maps: list[mmap.mmap] = []

    def add(self, found: Partial) -> None:
        """Add what a block gave."""
        self.partials.append(found)
        self._num_bytes += sum(table.nbytes for table in found)
        if self._num_bytes > self._most:
            self._store()

    def forget(self) -> None:
        """Let go of memory that holds what is on disk."""
        for each in self._maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                each.madvise(mmap.MADV_DONTNEED)

    def _store(self) -> None:
        waiting = self.partials[self._num_stored :]
        with storage_errors(self._folder), tempfile.TemporaryFile(dir=self._folder) as file:
            places = [[_write(table, file) for table in partial] for partial in waiting]
            file.flush()
            stored = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(stored)
        data = pa.py_buffer(stored)
        self.partials[self._num_stored :] = [
            Partial(*(pa.ipc.open_stream(data[place:]).read_all() for place in of_partial))
            for of_partial in places
        ]
        self._num_stored, self._num_bytes = len(self.partials), 0


def _write(table: pa.Table, file: IO[bytes]) -> int:
    place = -(-file.tell() // 64) * 64
    file.seek(place)
    with pa.ipc.new_stream(pa.PythonFile(file, "w"), table.schema) as writer:
        writer.write_table(table)
    return place
