"""Shared parts of builders of data sets: examples left out and why, splits, files written once."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from treefold.atomic import check_writable, remove_leftovers, write_atomically
from treefold.lab.tasks.cache import data_folder
from treefold.lab.tasks.realworld.graphs import SPLITS
from treefold.lab.tasks.realworld.task import GraphTask
from treefold.lab.tasks.realworld.tasks import CIFAR10, GRAPH_TASKS, MNIST

LEFT_OUT, BUILT = "left_out.csv", "built.json"
SEED = 0

Progress = Callable[[int, int], None]
"""Called with the number that is done and the total."""


@dataclass(frozen=True)
class LeftOut:
    """Something that could not be used."""

    place: str
    """A file, or a file and a line."""
    content: str
    problem: str

    def __str__(self) -> str:
        shown = f" {self.content!r:.80}" if self.content else ""
        return f"{self.place}:{shown} {self.problem}"


@dataclass(frozen=True)
class Built:
    """A data set that was built."""

    name: str
    """As tasks are called."""
    folder: Path
    """Its own, in that of all data sets."""
    sizes: dict[str, int]
    """Graphs in each split."""
    left_out: tuple[LeftOut, ...]


def numbers_of_splits(splits: Sequence[str | None]) -> dict[str, list[int]]:
    """The examples of each split by number, in the splits they name, or dealt at random.

    A split without examples is refused: the loaders read all three.
    """
    if splits[0] is None:
        return _dealt(len(splits))
    found = {split: [n for n, own in enumerate(splits) if own == split] for split in SPLITS}
    for split, numbers in found.items():
        if not numbers:
            raise ValueError(f"no usable example is in the split {split}; expected one or more")
    return found


def _dealt(count: int) -> dict[str, list[int]]:
    """Numbers below `count`, shuffled and dealt: 8 of 10 to train, 1 each to val and test."""
    if count < len(SPLITS):
        raise ValueError(
            f"{count} usable examples cannot be split into train, val and test; expected 3 or more"
        )
    order = Random(SEED).sample(range(count), count)
    hands: dict[str, list[int]] = {split: [] for split in SPLITS}
    for place, number in enumerate(order):
        hands[{1: "val", 2: "test"}.get(place % 10, "train")].append(number)
    return {split: sorted(hand) for split, hand in hands.items()}


def require_new(folder: Path) -> None:
    """Refuse a folder that has something in it, before any work, and one that cannot be written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already; give another --out, or remove it")
    check_writable(folder / "raw")


def write_built(
    folder: Path, files: dict[str, bytes], about: dict[str, object], left_out: Sequence[LeftOut]
) -> None:
    """Write the files of a data set, what was left out, and last what it was built from."""
    remove_leftovers(folder / "raw")
    for name, content in files.items():
        write_atomically(folder / name, content)
    if left_out:
        write_atomically(folder / LEFT_OUT, _table(left_out))
    text = json.dumps({**about, "left_out": len(left_out)}, indent=2, ensure_ascii=False)
    write_atomically(folder / BUILT, f"{text}\n".encode())


def built_task(name: str, data: Path | str | None = None) -> GraphTask:
    """The task of that name, for as many classes as its data set was built with."""
    path = data_folder(data) / GRAPH_TASKS[name].folder / BUILT
    try:
        classes = len(json.loads(path.read_text())["classes"])
    except (OSError, ValueError, KeyError, TypeError):  # an official one, or without classes
        return GRAPH_TASKS[name]()
    return {"mnist": MNIST, "cifar10": CIFAR10}[name](classes=max(classes, 10))


def _table(left_out: Sequence[LeftOut]) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["place", "content", "problem"])
    writer.writerows([(entry.place, entry.content, entry.problem) for entry in left_out])
    return buffer.getvalue().encode(errors="backslashreplace")
