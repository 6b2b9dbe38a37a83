"""`python -m benchmarks.tables`: what a table costs on Ray, per core, and the page of it.

Three prices: folding rows to partial states, taking in a partial state, and moving states to where
their key is merged. Those on Ray are slopes, what more states take longer, so that starting workers
is not in them. Needs the extra `ray`.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import torch
from torch import nn
from treefold.distributed.parquet import merged_by_key
from treefold.distributed.partial_fold import ROWS_AT_ONCE, PartialFold
from treefold.distributed.schema import STATE

from benchmarks.pages import made_by, page_path, table
from benchmarks.timing import timed
from treefold import BinaryGRU
from treefold.atomic import write_atomically
from treefold.distributed import ModelFold, on_ray
from treefold.distributed.source import find_source

WIDTH, NUM_VALUES, DIGITS = 128, 256, 8
KEY, COLUMN = "key", "x"
PARTITIONS = 4
GATHERED = "shuffle_input_batch_bytes"
"""Ray's setting: blocks are gathered up to so many bytes."""

Work = Callable[[int], object]
"""Something done with so many blocks."""


@dataclass(frozen=True)
class Costs:
    """Prices measured on one core, to calculate larger tables with."""

    rows_per_second: float
    """Rows folded to partial states."""
    seconds_per_merge: float
    """Time to take in one partial state of one key, all of the engine's work included."""
    bytes_per_second: float
    """Shuffled states, per worker."""


def state_bytes(channels: int) -> float:
    """Bytes of a partial state: float32, with its key and count."""
    return 4.0 * channels + 24


def untrained(width: int = WIDTH) -> ModelFold:
    """Binary-GRU as it was drawn: what it answers does not change what it costs."""
    torch.manual_seed(0)
    states = torch.randn(NUM_VALUES, width)
    return ModelFold(BinaryGRU(width), states, nn.Linear(width, DIGITS))


def rows_per_second(
    fold: ModelFold, num_rows: int = 4 * ROWS_AT_ONCE, num_keys: int = 100
) -> float:
    """Rows of a Parquet file folded to partial states, by the processor's time of one core."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        draw = torch.Generator().manual_seed(0)
        keys = torch.randint(num_keys, (num_rows,), generator=draw)
        values = torch.randint(fold.num_values, (num_rows,), generator=draw)
        pq.write_table(pa.table({KEY: keys.numpy(), COLUMN: values.numpy()}), path)
        pieces = pa.Table.from_pylist(find_source(path, KEY, COLUMN, fold).pieces)
        partial = PartialFold(fold, KEY, COLUMN)
        next(partial(pieces))  # first calls load libraries and compile
        return num_rows / timed(lambda: list(partial(pieces)), time.process_time)


def partial_states(fold: ModelFold, num_blocks: int, num_keys: int) -> Any:
    """A dataset of blocks as workers leave them: a partial state of every key in each."""
    rows = pa.record_batch({KEY: range(num_keys), COLUMN: [0] * num_keys})
    block = PartialFold(fold, KEY, COLUMN).folded(rows, file="", first_row=0)
    return ray.data.from_arrow([block] * num_blocks)


def merge(fold: ModelFold, num_blocks: int, num_keys: int) -> dict[Any, list[float]]:
    """The states of all keys, each merged from one partial state of every block."""
    with blocks_apart():
        merged = merged_by_key(partial_states(fold, num_blocks, num_keys), fold, KEY, PARTITIONS)
        return {key: state for batch in batches(merged) for key, state in columns(batch)}


@contextmanager
def blocks_apart() -> Iterator[None]:
    """Inside, states of one key meet after the shuffle, as those of different machines do.

    Ray gathers small blocks of a machine into one task, where states of a key are folded together
    for a tenth of the price.
    """
    context = ray.data.DataContext.get_current()
    before = getattr(context, GATHERED, None)
    if before is None:  # a Ray that does not gather
        yield
        return
    setattr(context, GATHERED, 0)
    try:
        yield
    finally:
        setattr(context, GATHERED, before)


def shuffle(fold: ModelFold, num_blocks: int, num_keys: int) -> int:
    """Bring partial states to where their key is, and do nothing with them; how many there were."""
    moved = partial_states(fold, num_blocks, num_keys).repartition(PARTITIONS, keys=[KEY])
    return sum(batch.num_rows for batch in batches(moved))


def batches(dataset: Any) -> Iterator[pa.Table]:
    yield from dataset.iter_batches(batch_size=None, batch_format="pyarrow")


def columns(batch: pa.Table) -> Iterator[tuple[Any, list[float]]]:
    return zip(batch[KEY].to_pylist(), batch[STATE].to_pylist(), strict=True)


def seconds_per_merge(fold: ModelFold, few: int = 5, many: int = 45, num_keys: int = 100) -> float:
    """For one partial state of one key: the processor's time of all processes of Ray."""
    work = slope(lambda blocks: merge(fold, blocks, num_keys), few, many, processor_seconds)
    return work / num_keys


def bytes_per_second(fold: ModelFold, few: int = 5, many: int = 45, num_keys: int = 4_000) -> float:
    """Shuffled states per second, by the clock, for each core that Ray may use."""
    work = slope(lambda blocks: shuffle(fold, blocks, num_keys), few, many, time.perf_counter)
    return num_keys * state_bytes(fold.channels) / work / ray.cluster_resources()["CPU"]


def slope(work: Work, few: int, many: int, clock: Callable[[], float]) -> float:
    """Seconds for one block more."""
    work(few)  # workers start
    fewer, more = (timed(lambda blocks=blocks: work(blocks), clock) for blocks in (few, many))
    if more <= fewer:
        raise RuntimeError(
            f"{many} blocks took {more:.2f} s and {few} took {fewer:.2f} s: other work is in the "
            "way; run it again while nothing else runs"
        )
    return (more - fewer) / (many - few)


def processor_seconds() -> float:
    """The time of this process and all it has started, those that have ended included."""
    here = psutil.Process()
    times = [process_seconds(process) for process in (here, *here.children(recursive=True))]
    return sum(times)


def process_seconds(process: psutil.Process) -> float:
    try:
        spent = process.cpu_times()
    except psutil.NoSuchProcess:  # its time is its parent's now
        return 0.0
    return float(spent.user + spent.system + spent.children_user + spent.children_system)


def measure() -> Costs:
    torch.set_num_threads(1)
    fold = untrained()
    rate = rows_per_second(fold)
    with on_ray(progress=False):
        return Costs(rate, seconds_per_merge(fold), bytes_per_second(fold))


def rows(costs: Costs) -> list[list[str]]:
    """Two digits each: they are prices to calculate with."""
    fast, shuffled = (f"{float(f'{rate:.2g}'):,.0f}" for rate in costs_per_second(costs))
    return [
        ["fold rows of one integer column to partial states", f"{fast} rows a second"],
        [
            "take in one partial state of one key, with all that Ray does for it",
            f"{float(f'{costs.seconds_per_merge * 1e3:.2g}'):g} ms",
        ],
        ["shuffle states, Ray on one machine", f"{shuffled} MB a second and core"],
    ]


def costs_per_second(costs: Costs) -> tuple[float, float]:
    return costs.rows_per_second, costs.bytes_per_second / 1e6


def page(costs: Costs) -> str:
    lines = [
        "# What a table costs on Ray, per core",
        "",
        made_by("python -m benchmarks.tables", "torch", "ray"),
        "",
        f"Width {WIDTH}, float32. Processor's time for the fold and the merge, the clock's for the "
        "shuffle: that is too slow where other work runs beside it. The states of a key meet after "
        "the shuffle; those that Ray gathers into one task before it cost less.",
        "",
        *table(("what", "measured"), rows(costs)),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    path, text = page_path("tables"), page(measure())
    write_atomically(path, text.encode())
    print(text)


if __name__ == "__main__":
    main()
