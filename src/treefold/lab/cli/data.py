"""`treefold data`: fetch official files, or build graphs from molecules and images, with bars."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from treefold.lab.tasks import GRAPH_TASKS, LEFT_OUT, SPLITS, built_task, data_folder, fetch

if TYPE_CHECKING:
    from treefold.lab.tasks import Built

NUM_SHOWN = 10
"""Left-out entries that are printed; all of them go to a file."""


def fetch_data(name: str, into: Path | None, sha256: str | None) -> None:
    """Fetch a data set, print what came, and check that it can be read."""
    with bar(name, DownloadColumn(), TransferSpeedColumn()) as progress:
        fetched = fetch(name, into, sha256=sha256, progress=progress)
    if fetched.downloaded:
        print(f"{name} is now in {fetched.folder}; SHA-256 of its archive {fetched.sha256}")
    else:
        print(f"{name} is in {fetched.folder}, whole; nothing was downloaded")
    task = GRAPH_TASKS[name]()
    sizes = {split: len(task.split(split, into)) for split in SPLITS}
    print("  ".join(f"{split} {size:,}" for split, size in sizes.items()) + " graphs")
    if into is not None and into.expanduser() != data_folder():
        print(f"to use it, set TREEFOLD_DATA={into}")


def build_zinc_data(table: Path, out: Path) -> None:
    """Molecules from a table."""
    with _needed("rdkit", "networkx"):
        from treefold.lab.tasks import build_zinc

    with bar("molecules", MofNCompleteColumn()) as progress:
        built = build_zinc(table, out, progress)
    _print(built, out)


def build_superpixel_data(
    source: Path, out: Path, at_most: int | None, compactness: float | None
) -> None:
    """Images as superpixels."""
    with _needed("skimage", "PIL"):
        from treefold.lab.tasks import build_superpixels

    with bar("images", MofNCompleteColumn()) as progress:
        built = build_superpixels(
            source, out, at_most=at_most, compactness=compactness, progress=progress
        )
    _print(built, out)


def _print(built: "Built", out: Path) -> None:
    """Print the sizes of the splits, once our loader has read all of them."""
    task = built_task(built.name, out)
    sizes = "  ".join(f"{split} {len(task.split(split, out)):,}" for split in built.sizes)
    print(f"{built.folder} has {sizes} graphs")
    if built.left_out:
        print(f"{len(built.left_out):,} were left out; see {built.folder / LEFT_OUT}")
        for entry in built.left_out[:NUM_SHOWN]:
            print(f"  {entry}")
        if len(built.left_out) > NUM_SHOWN:
            print(f"  and {len(built.left_out) - NUM_SHOWN:,} more")
    print(f"to use it: treefold compare {built.name} --data {out}")


@contextmanager
def _needed(*packages: str) -> Iterator[None]:
    """Name the extra to install where a package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        raise ValueError(
            f"building this needs {error.name}; pip install 'treefold[build]'"
        ) from None


@contextmanager
def bar(what: str, *columns: ProgressColumn) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function of what is done and the total; a bar on a terminal, silent elsewhere."""
    shown = (TextColumn("{task.description}"), BarColumn(bar_width=24), *columns)
    with Progress(
        *shown,
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
