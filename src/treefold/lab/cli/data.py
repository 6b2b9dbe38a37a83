"""`treefold data fetch`: fetch official files with a bar, then convert them."""

from contextlib import AbstractContextManager
from pathlib import Path

from rich.progress import DownloadColumn, TransferSpeedColumn

from treefold.lab.cli.counting import bar_or_lines
from treefold.lab.tasks import GRAPH_TASKS, SPLITS, Fetched, data_folder, fetch
from treefold.lab.tasks import Progress as Report


def fetch_data(name: str, into: Path | None, sha256: str | None) -> None:
    """Fetch a data set, print what came, and check that it can be read."""
    with progress_of(name) as progress:
        fetched = fetch(name, into, sha256=sha256, progress=progress)
    print(_in_words(name, fetched), flush=True)
    task = GRAPH_TASKS[name]()
    sizes = {split: len(task.split(split, into)) for split in SPLITS}
    print("  ".join(f"{split} {size:,}" for split, size in sizes.items()) + " graphs")
    if into is not None and into.expanduser() != data_folder():
        print(f"to use it, set TREEFOLD_DATA={into}")


def _in_words(name: str, fetched: Fetched) -> str:
    if not fetched.downloaded:
        return f"{name} is in {fetched.folder}, whole; nothing was downloaded"
    return f"{name} is now in {fetched.folder}; SHA-256 of its archive {fetched.sha256}"


def progress_of(name: str) -> AbstractContextManager[Report]:
    """A bar on a terminal; elsewhere a line for every tenth, or every 100 MB."""

    def line(done: int, total: int | None) -> str:
        of = f" of {total / 1e6:,.1f}" if total else ""
        return f"{name}: {done / 1e6:,.1f}{of} MB"

    columns = (DownloadColumn(), TransferSpeedColumn())
    return bar_or_lines(name, columns, line, step=100_000_000)
