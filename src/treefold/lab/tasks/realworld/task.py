"""A benchmark of real graphs: its folder, its features, its metric."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from treefold.lab.tasks.cache import (
    Arrays,
    cache_folder,
    cached_arrays,
    data_folder,
    fingerprint,
    require_files,
)
from treefold.lab.tasks.realworld.graphs import SPLITS, GraphStore, average_log_degree
from treefold.lab.tasks.realworld.plain_pickle import RefusedFile
from treefold.names import require_one_of
from treefold.shapes import Shaped


@dataclass(frozen=True)
class Categories:
    """One whole number per column, from 0 up to the column's size (exclusive)."""

    sizes: tuple[int, ...]

    @property
    def channels(self) -> int:
        """The number of columns."""
        return len(self.sizes)

    def check(self, values: Shaped[Tensor, " n channels"], what: str) -> None:
        """Refuse values that an embedding of these sizes would not have."""
        _check_channels(values, self.channels, what)
        if values.is_floating_point():
            raise ValueError(f"{what} are {values.dtype}; expected whole numbers")
        if not len(values):
            return
        lowest, highest = torch.aminmax(values, dim=0)
        outside = (lowest < 0) | (highest >= torch.tensor(self.sizes))
        for column in outside.nonzero().flatten().tolist():
            raise ValueError(
                f"{what} have {int(lowest[column])} to {int(highest[column])} in column {column}; "
                f"expected 0 to {self.sizes[column] - 1}"
            )


@dataclass(frozen=True)
class Numbers:
    """So many finite numbers."""

    channels: int

    def check(self, values: Shaped[Tensor, " n channels"], what: str) -> None:
        """Refuse values that are not finite numbers."""
        _check_channels(values, self.channels, what)
        if not bool(values.isfinite().all()):
            raise ValueError(f"{what} hold values that are not finite; expected numbers")


def _check_channels(values: Tensor, channels: int, what: str) -> None:
    if values.dim() != 2 or values.shape[1] != channels:
        raise ValueError(f"{what} have shape {list(values.shape)}; expected [n, {channels}]")


CONVERSION = 1
"""Version of the content of the cached files: other versions are written again."""


@dataclass(frozen=True, kw_only=True)
class GraphTask(ABC):
    """Graphs with one answer each, in the splits train, val and test.

    The official files are read once, as data only, and cached as arrays. They
    are looked for in a folder for all data sets: the argument `data`, or else the variable
    TREEFOLD_DATA, or else where `treefold data fetch` puts them. The network is never asked.
    """

    at_most: int | None = None
    """Graphs of each split, the first ones; None for all."""

    name: ClassVar[str]
    """As `treefold data fetch` knows it."""
    folder: ClassVar[str]
    """The data set's own folder, in that of all data sets."""
    metric: ClassVar[Literal["mae", "roc-auc", "accuracy"]]
    node_input: ClassVar[Categories | Numbers]
    edge_input: ClassVar[Categories | Numbers]
    num_outputs: ClassVar[int]

    def __post_init__(self) -> None:
        if self.at_most is not None and self.at_most < 1:
            raise ValueError(f"at_most is {self.at_most}; expected 1 or more graphs, or none")

    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """The files that are read, relative to the data set's own folder."""

    @abstractmethod
    def read(self, folder: Path) -> dict[str, Arrays]:
        """The arrays of all splits from the official files."""

    def kept(self, store: GraphStore) -> GraphStore:
        """The graphs of a split that the task uses: all of them, unless a task overrides it."""
        return store

    def require(self, data: Path | str | None = None) -> None:
        """Raise a `MissingData` with the remedy, if a file is not there."""
        require_files(self.name, data_folder(data) / self.folder, self.files())

    def split(
        self, name: str, data: Path | str | None = None, cache: Path | str | None = None
    ) -> GraphStore:
        """The graphs of a split that the task uses."""
        store = self.kept(self.whole(name, data, cache))
        if self.at_most is None or self.at_most >= len(store):
            return store
        return store.only(torch.arange(self.at_most))

    def whole(
        self, name: str, data: Path | str | None = None, cache: Path | str | None = None
    ) -> GraphStore:
        """All graphs of a split."""
        require_one_of(SPLITS, name, "split")
        folder = data_folder(data) / self.folder
        require_files(self.name, folder, self.files())
        key = f"{CONVERSION}-{fingerprint(folder, self.files())}"
        paths = {
            each: cache_folder(cache) / "realworld" / self.name / f"{each}-{key}.arrays"
            for each in SPLITS
        }
        return _checked(self, _converted(self, name, folder, paths), folder)

    def delta(self, data: Path | str | None = None, cache: Path | str | None = None) -> float:
        """δ of PNA's scalers, from the training graphs."""
        return average_log_degree(self.split("train", data, cache))


def _converted(task: GraphTask, name: str, folder: Path, paths: dict[str, Path]) -> GraphStore:
    def build() -> Arrays:
        # One file may hold all splits, so all are kept when one is asked for.
        splits = task.read(folder)
        for other in set(SPLITS) - {name}:
            cached_arrays(paths[other], partial(splits.__getitem__, other), compressed=False)
        return splits[name]

    return GraphStore.from_arrays(cached_arrays(paths[name], build, compressed=False))


def _checked(task: GraphTask, store: GraphStore, folder: Path) -> GraphStore:
    try:
        task.node_input.check(store.x, "nodes")
        task.edge_input.check(store.edge_attr, "edges")
        _check_answers(store, task.num_outputs)
    except ValueError as error:
        raise RefusedFile(f"{folder} is not {task.name}: {error}") from None
    return store


def _check_answers(store: GraphStore, num_outputs: int) -> None:
    if store.y.is_floating_point():
        if not bool(torch.isfinite(store.y).all()):
            raise ValueError("an answer is not finite; expected numbers")
    elif not 0 <= int(store.y.min()) <= int(store.y.max()) < num_outputs:
        raise ValueError(
            f"classes go from {int(store.y.min())} to {int(store.y.max())}; expected 0 to "
            f"{num_outputs - 1}"
        )
