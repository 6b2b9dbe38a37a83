"""`python -m benchmarks.tables`: what folds of tables cost, as ratios, and the page of them.

`--only NAME` prints one row and writes no page. Needs the extra `ray`, two cores and 8 GB of disk.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from benchmarks.memory import peak_bytes, printed_by
from benchmarks.pages import made_by, page_path, table
from benchmarks.timing import Action, Ratio, timed
from treefold import GatedSelection, Groups
from treefold.atomic import write_atomically
from treefold.distributed import ModelFold, fold_table
from treefold.distributed.merging import merge, ranges_of
from treefold.distributed.partial import Partial

WIDTH, NUM_VALUES = 128, 256
ROWS, KEYS = 2_000_000, 20_000
MANY_ROWS, MANY_KEYS, BUDGET = 20_000_000, 5_000_000, 2 << 30
MERGED_BLOCKS = 31
MOST_MEMORY = 1e9
AT_ONCE = 4096
"""Rows of one multiplication of the floor: what it needs stays in the cache."""

ROUNDS = 3

_SIZES = ((AT_ONCE, WIDTH), (WIDTH, 3 * WIDTH), (WIDTH, 2 * WIDTH))

Row = list[str]


def model() -> ModelFold:
    """Gated selection as it was drawn: what it answers does not change what it costs."""
    torch.manual_seed(0)
    return ModelFold(GatedSelection(WIDTH).eval(), torch.randn(NUM_VALUES, WIDTH))


def drawn(num_rows: int, num_keys: int) -> tuple[Tensor, Tensor]:
    """The key and the value of each row."""
    draw = torch.Generator().manual_seed(0)
    keys = torch.randint(num_keys, (num_rows,), generator=draw)
    return keys, torch.randint(NUM_VALUES, (num_rows,), generator=draw)


def written(folder: Path, num_rows: int, num_keys: int) -> Path:
    """A Parquet file of such rows."""
    keys, values = drawn(num_rows, num_keys)
    path = folder / f"{num_rows}.parquet"
    pq.write_table(pa.table({"key": keys.numpy(), "x": values.numpy()}), path)
    return path


def floor(applications: int, distinct_arguments: int) -> Callable[[], None]:
    """The multiplications of so many applications, into given memory.

    Each is 3 width² for its gates; and 2 width² for an argument, unless it repeats.
    """
    rows, gates, hidden = (torch.randn(*size) for size in _SIZES)
    to_gates, to_hidden = torch.empty(AT_ONCE, 3 * WIDTH), torch.empty(AT_ONCE, 2 * WIDTH)

    def run() -> None:
        for _ in range(applications // AT_ONCE):
            torch.mm(rows, gates, out=to_gates)
        for _ in range(distinct_arguments // AT_ONCE):
            torch.mm(rows, hidden, out=to_hidden)

    return run


def embedded(source: Path, memory: int = 1 << 30, address: str | None = None) -> None:
    """Fold a table to one next to it."""
    out, options = source.with_suffix(".out"), {"memory": memory, "address": address}
    found = fold_table(model(), source, out, key="key", on="x", overwrite=True, **options)
    if found.num_rows != pq.read_metadata(source).num_rows:
        raise RuntimeError(f"{found.num_rows:,} rows were folded; expected all of {source}")


def ratio(above: Action, below: Action) -> Ratio:
    """The ratio of two times, measured in turn, after each was done once."""
    above(), below()
    return Ratio.of([(timed(above), timed(below)) for _ in range(ROUNDS)])


def in_memory_row(folder: Path) -> Row:
    """The fold of all rows at once, against its multiplications."""
    fold, (keys, values) = model(), drawn(ROWS, KEYS)
    measured = ratio(
        lambda: fold.fold(values, Groups.from_index(keys, KEYS)),
        floor(ROWS - KEYS, ROWS - 2 * KEYS),
    )
    what = f"fold of {ROWS:,} rows of {KEYS:,} keys in memory, sorting and planning included"
    return _row(what, "its counted multiplications", measured, 2.0)


def embedded_row(folder: Path) -> Row:
    """The embedded fold of the table, against the fold in memory; its peak of memory."""
    source, fold, (keys, values) = written(folder, ROWS, KEYS), model(), drawn(ROWS, KEYS)
    measured = ratio(
        lambda: embedded(source),
        lambda: fold.fold(values, Groups.from_index(keys, KEYS)),
    )
    _, peak = json.loads(printed_by("benchmarks.tables", "--fold", str(source), str(1 << 30)))
    note = f"peak memory {peak / 1e6:,.0f} MB, of at most {MOST_MEMORY / 1e6:,.0f}"
    row = _row(f"embedded fold of a table of {ROWS:,} rows", "that fold", measured, 1.5, note)
    return row if peak <= MOST_MEMORY else [*row[:4], "**no**", row[5]]


def many_keys_row(folder: Path) -> Row:
    """The time of a row among many keys, against that in the smaller table."""
    small, large = written(folder, ROWS, KEYS), written(folder, MANY_ROWS, MANY_KEYS)
    times = []
    for source in (small, large):
        found = json.loads(printed_by("benchmarks.tables", "--fold", str(source), str(BUDGET)))
        times.append(found)
    (seconds, _), (longer, peak) = times
    rates = ROWS / seconds, MANY_ROWS / longer
    note = (
        f"{rates[1]:,.0f} rows per second, {longer:.0f} s; budget {BUDGET >> 30} GB, "
        f"peak memory of the process {peak / 1e9:.1f} GB"
    )
    what = f"a row of {MANY_ROWS:,}, of {MANY_KEYS:,} keys, embedded"
    per_row = Ratio.of([(1 / rates[1], 1 / rates[0])])
    return _row(what, f"a row of {ROWS:,}", per_row, 2.0, note)


def ray_row(folder: Path) -> Row:
    """Two nodes of Ray on this machine, one core each, against the embedded fold."""
    source = written(folder, ROWS, KEYS)
    with _two_nodes() as address:
        embedded(source, address=address)  # workers start and import torch
        measured = ratio(
            lambda: embedded(source, address=address),
            lambda: embedded(source),
        )
    what = f"{ROWS:,} rows on two local Ray nodes of one core, their start apart"
    return _row(what, "embedded, on two cores", measured, 3.0)


def merging_row(folder: Path) -> Row:
    """Partial states of all keys, merged on one thread, against their multiplications."""
    torch.set_num_threads(1)
    fold, states = model(), torch.randn(KEYS, WIDTH)
    partials = [_partial(states) for _ in range(MERGED_BLOCKS)]
    measured = ratio(
        lambda: [merge(fold, parts) for parts in ranges_of(partials)],
        floor(KEYS * (MERGED_BLOCKS - 1), 2 * KEYS * (MERGED_BLOCKS - 1)),
    )
    each = measured.seconds[0] / (KEYS * MERGED_BLOCKS)
    what = f"merging {MERGED_BLOCKS} partial states of each of {KEYS:,} keys, one thread"
    note = f"{each * 1e6:.1f} µs per state"
    return _row(what, "its counted multiplications", measured, 2.0, note)


ROWS_OF_PAGE = (in_memory_row, embedded_row, many_keys_row, ray_row, merging_row)


def _partial(states: Tensor) -> Partial:
    column = pa.FixedSizeListArray.from_arrays(pa.array(states.flatten().numpy()), WIDTH)
    keys, ones = pa.array(range(KEYS)), torch.ones(KEYS, dtype=torch.int64).numpy()
    none = pa.table({"key": keys[:0], "value": pa.array([], pa.int64())})
    bad = {"file": pa.array([""]).dictionary_encode(), "row": [0], "problem": ["null"]}
    listed = pa.table({"key": keys[:1], **bad})
    problem = listed["problem"].combine_chunks().dictionary_encode()
    listed = listed.set_column(3, "problem", problem).slice(0, 0)
    return Partial(none, pa.table({"key": keys, "value": column, "count": ones}), listed)


def _row(what: str, against: str, measured: Ratio, most: float, note: str = "") -> Row:
    seconds = ", ".join(f"{each:.3g}" for each in measured.seconds)
    note = note or f"seconds: {seconds}"
    verdict = "yes" if measured.median <= most else "**no**"
    return [what, against, str(measured), f"at most {most:g}x", verdict, note]


@contextmanager
def _two_nodes() -> Iterator[str]:
    """A cluster whose head and second node have one core each; its address."""
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    os.environ |= {"RAY_idle_worker_killing_time_threshold_ms": "600000"}
    from ray.cluster_utils import Cluster  # noqa: PLC0415 (only now: Ray reads the environment)

    node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 500 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        yield cluster.address
    finally:
        cluster.shutdown()


def page(rows: list[Row]) -> str:
    columns = ("what", "against", "ratio (quartiles)", "to reach", "reached", "note")
    lines = [
        "# Folds of tables, as ratios",
        "",
        made_by("python -m benchmarks.tables", "torch", "pyarrow", "ray"),
        "",
        f"Gated selection, width {WIDTH}, float32, rows are integers below {NUM_VALUES}; two "
        "threads unless a row says otherwise. An application counts as 3 width² multiplications "
        "for its gates, and 2 width² for each of its arguments that is no integer of the table; "
        "these are done in turn with the fold, on the same threads, as bare products of matrices.",
        "",
        *table(columns, rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[each.__name__ for each in ROWS_OF_PAGE])
    parser.add_argument("--fold", nargs=2, metavar=("TABLE", "MEMORY"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fold:
        source, memory = arguments.fold
        seconds = timed(lambda: embedded(Path(source), int(memory)))
        print(json.dumps([seconds, peak_bytes()]))
        return
    rows = []
    for each in ROWS_OF_PAGE:
        if arguments.only in (None, each.__name__):
            torch.set_num_threads(2)
            with tempfile.TemporaryDirectory() as folder:
                rows.append(each(Path(folder)))
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    if not arguments.only:
        write_atomically(page_path("tables"), page(rows).encode())


if __name__ == "__main__":
    main()
