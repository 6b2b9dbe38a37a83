"""`treefold data build`: graphs from molecules and images, with progress."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import MofNCompleteColumn

from treefold.lab.cli.counting import bar_or_lines

if TYPE_CHECKING:
    from treefold.lab.tasks import Built
    from treefold.lab.tasks import Progress as Report

NUM_SHOWN = 10
"""Left-out entries that are printed; all of them go to a file."""


def build_zinc_data(table: Path, out: Path) -> None:
    """Molecules from a table."""
    with _needed("rdkit", "networkx"):
        from treefold.lab.tasks import build_zinc

    with progress_of("molecules") as progress:
        built = build_zinc(table, out, progress)
    _print(built, out)


def build_superpixel_data(
    source: Path,
    out: Path,
    labels: Path | None,
    at_most: int | None,
    compactness: float | None,
) -> None:
    """Images as superpixels."""
    with _needed("skimage", "PIL"):
        from treefold.lab.tasks import build_superpixels

    with progress_of("images") as progress:
        built = build_superpixels(
            source, out, labels=labels, at_most=at_most, compactness=compactness, progress=progress
        )
    _print(built, out)


def _print(built: "Built", out: Path) -> None:
    """Print the sizes of the splits, once our loader has read all of them."""
    from treefold.lab.tasks import LEFT_OUT, built_task

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


def progress_of(what: str) -> AbstractContextManager["Report"]:
    """A bar on a terminal; elsewhere a line for every tenth."""
    return bar_or_lines(
        what,
        (MofNCompleteColumn(),),
        lambda done, total: f"{done:,} of {total:,} {what}",
        first=1,
    )
