"""`treefold fold`: fold a table with a trained model."""

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

NUM_SHOWN = 10
"""Bad rows that are printed; all that are listed are in a file."""

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def fold_file(model: Path, source: Path, out: Path, memory: str, **options: Any) -> None:
    """Fold a Parquet table with a model, and print the counts of its rows."""
    warnings.simplefilter("ignore")  # Ray's own, about its future
    from treefold.distributed import bad_rows_path, fold_table
    from treefold.lab.experiments import load_fold

    num_bytes, key = as_bytes(memory), options["key"]
    fold = load_fold(model)
    with _progress() as watch:
        summary = fold_table(fold, source, out, memory=num_bytes, watch=watch, **options)
    print(f"{summary.num_rows:,} rows of {summary.num_keys:,} keys folded to {out}")
    print(f"merge order: {summary.stability}")
    if not summary.num_bad:
        return
    print(f"{summary.num_bad:,} rows could not be folded; see {bad_rows_path(out)}")
    for line in summary.bad[:NUM_SHOWN]:
        print(f"  {line['file']} row {line['row']}, {key} {line[key]!r}: {line['problem']}")
    if summary.num_bad > NUM_SHOWN:
        print(f"  and {summary.num_bad - NUM_SHOWN:,} more")
    if unlisted := summary.num_bad - summary.num_listed:
        print(f"{unlisted:,} of them are not in that file: it names at most 100 of a key")


def as_bytes(text: str) -> int:
    """The number of bytes of `2GB`, `500 MB` or `1000000`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip().lower())
    if not found or not float(found[1]):
        raise ValueError(f"--memory is {text!r}; expected a size, such as 2GB or 500MB")
    return int(float(found[1]) * (1 << _UNITS[found[2]]))


class _Rate(ProgressColumn):
    """Rows per second."""

    def render(self, task: Task) -> Text:
        """Draw it."""
        return Text(f"{task.speed:,.0f} rows/s" if task.speed else "")


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each stage of the work, on a terminal."""
    columns = [TextColumn("{task.description:>6}"), BarColumn(bar_width=24), _Rate()]
    bars = Progress(
        *columns,
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    stages: dict[str, Any] = {}

    def watch(stage: str, rows: int, total: int) -> None:
        if stage not in stages:
            stages[stage] = bars.add_task(stage, total=total)
        bars.advance(stages[stage], rows)

    with bars:
        yield watch
