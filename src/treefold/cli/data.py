"""What `treefold data` does: fetch official files with a bar, then convert them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from treefold.tasks.realworld import GRAPH_TASKS, Fetched, data_folder, fetch
from treefold.tasks.realworld.download import Progress as Told


def fetch_data(name: str, into: Path | None, sha256: str | None) -> None:
    """Fetch a data set, say what came, and see that it can be read."""
    with told_progress(name) as told:
        fetched = fetch(name, into, sha256=sha256, progress=told)
    print(_said(name, fetched), flush=True)
    task = GRAPH_TASKS[name]()
    sizes = {split: len(task.split(split, into)) for split in ("train", "val", "test")}
    print("  ".join(f"{split} {size:,}" for split, size in sizes.items()) + " graphs")
    if into is not None and into.expanduser() != data_folder():
        print(f"to use it, set TREEFOLD_DATA={into}")


def _said(name: str, fetched: Fetched) -> str:
    if not fetched.downloaded:
        return f"{name} is in {fetched.folder}, whole; nothing was downloaded"
    return f"{name} is now in {fetched.folder}; SHA-256 of its archive {fetched.sha256}"


@contextmanager
def told_progress(name: str) -> Iterator[Told]:
    """A bar on a terminal; elsewhere a line for every tenth, or every 100 MB."""
    if not sys.stderr.isatty():
        yield _Lines(name)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


class _Lines:
    """Prints a line now and then."""

    def __init__(self, name: str) -> None:
        self._name, self._next = name, 0

    def __call__(self, done: int, total: int | None) -> None:
        if done < self._next and done != total:
            return
        self._next = done + (total // 10 if total else 100_000_000)
        of = f" of {total / 1e6:,.1f}" if total else ""
        print(f"{self._name}: {done / 1e6:,.1f}{of} MB", file=sys.stderr, flush=True)
