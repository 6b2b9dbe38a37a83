"""The four benchmarks of real graphs in the papers on PNA and on learnable monoids."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from treefold.lab.tasks.cache import Arrays, data_folder, read_receipt
from treefold.lab.tasks.realworld.graphs import SPLITS, GraphStore
from treefold.lab.tasks.realworld.readers import (
    OGB_FILES,
    read_ogb,
    read_superpixels,
    read_zinc,
    zinc_files,
)
from treefold.lab.tasks.realworld.task import Categories, GraphTask, Numbers


@dataclass(frozen=True)
class ZINC(GraphTask):
    """Predict the constrained solubility of a molecule from its atoms and bonds.

    With `subset`, the 12,000 molecules of the benchmark; without, all in the files.
    """

    subset: bool = True

    name: ClassVar[str] = "zinc"
    folder: ClassVar[str] = "ZINC"
    metric: ClassVar[Literal["mae"]] = "mae"
    node_input: ClassVar[Categories] = Categories((28,))
    edge_input: ClassVar[Categories] = Categories((4,))
    num_outputs: ClassVar[int] = 1

    def files(self) -> tuple[str, ...]:
        """Pickles of molecules, and for the subset lists of their numbers."""
        return zinc_files(self.subset)

    def read(self, folder: Path) -> dict[str, Arrays]:
        """From pickles, without running what is in them."""
        return read_zinc(folder, self.subset)


@dataclass(frozen=True)
class MolHIV(GraphTask):
    """Tell whether a molecule stops HIV from multiplying.

    PNA leaves out graphs of five or fewer nodes, in its test too: `leave_out_up_to=5`. The
    standard of OGB is to keep all.
    """

    leave_out_up_to: int = 0

    name: ClassVar[str] = "molhiv"
    folder: ClassVar[str] = "ogbg_molhiv"
    metric: ClassVar[Literal["roc-auc"]] = "roc-auc"
    # Atomic number, chirality, degree, charge, hydrogens, radical electrons, hybridisation,
    # aromatic, in a ring; bond type, stereo, conjugated.
    node_input: ClassVar[Categories] = Categories((119, 5, 12, 12, 10, 6, 6, 2, 2))
    edge_input: ClassVar[Categories] = Categories((5, 6, 2))
    num_outputs: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.leave_out_up_to < 0:
            raise ValueError(f"leave_out_up_to is {self.leave_out_up_to}; expected 0 or more nodes")

    def files(self) -> tuple[str, ...]:
        """Compressed tables."""
        return OGB_FILES

    def read(self, folder: Path) -> dict[str, Arrays]:
        """From tables."""
        return read_ogb(folder)

    def kept(self, store: GraphStore) -> GraphStore:
        """Graphs that are large enough."""
        large = store.sizes > self.leave_out_up_to
        return store if bool(large.all()) else store.only(large.nonzero().squeeze(1))


@dataclass(frozen=True)
class Superpixels(GraphTask):
    """Tell what an image shows, from the means and the centres of its superpixels.

    `classes` may be more than ten for images of your own, see `treefold data build superpixels`.
    """

    classes: int = 10

    metric: ClassVar[Literal["accuracy"]] = "accuracy"
    edge_input: ClassVar[Numbers] = Numbers(1)

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """An answer for each class."""
        return self.classes

    def files(self) -> tuple[str, ...]:
        """One file of tensors."""
        return (f"raw/{self.folder}_v2.pt",)

    def read(self, folder: Path) -> dict[str, Arrays]:
        """From tensors."""
        return read_superpixels(folder / self.files()[0])


@dataclass(frozen=True)
class MNIST(Superpixels):
    """Digits, from the mean grey of their superpixels."""

    name: ClassVar[str] = "mnist"
    folder: ClassVar[str] = "MNIST"
    node_input: ClassVar[Numbers] = Numbers(3)


@dataclass(frozen=True)
class CIFAR10(Superpixels):
    """Things and animals, from the mean colour of their superpixels."""

    name: ClassVar[str] = "cifar10"
    folder: ClassVar[str] = "CIFAR10"
    node_input: ClassVar[Numbers] = Numbers(5)


GRAPH_TASKS: dict[str, type[GraphTask]] = {
    task.name: task for task in (ZINC, MolHIV, MNIST, CIFAR10)
}
"""By name."""


@dataclass(frozen=True)
class FirstGraph:
    """The first graph of a split."""

    nodes: int
    edges: int
    answer: float


@dataclass(frozen=True)
class Facts:
    """Facts about an official release; in the order train, val, test."""

    graphs: tuple[int, int, int]
    mean_nodes: float | None = None
    first: tuple[FirstGraph, FirstGraph, FirstGraph] | None = None


OFFICIAL: dict[str, Facts] = {
    "zinc": Facts(
        (10_000, 1_000, 1_000),
        first=(FirstGraph(29, 64, 0.8350), FirstGraph(35, 78, 0.6299), FirstGraph(16, 34, 1.9973)),
    ),
    "molhiv": Facts((32_901, 4_113, 4_113)),
    "mnist": Facts((55_000, 5_000, 10_000), mean_nodes=70.57),
    "cifar10": Facts((45_000, 5_000, 10_000), mean_nodes=117.63),
}
"""By task."""


def differences_from_official(task: GraphTask, data: Path | str | None = None) -> list[str]:
    """Differences of the files of a task from the official ones, in words; or that it is unknown.

    Files that `treefold data fetch` got from the publisher are official.
    """
    receipt = read_receipt(data_folder(data) / task.folder)
    if (receipt and receipt["finished"]) or (isinstance(task, ZINC) and not task.subset):
        return []
    stores = {split: task.whole(split, data) for split in SPLITS}
    found = _differences(task.name, stores, OFFICIAL[task.name])
    return found or [f"{task.name} was not fetched by treefold, so it may not be the official one"]


def _differences(name: str, stores: Mapping[str, GraphStore], facts: Facts) -> list[str]:
    found, graphs = [], tuple(len(store) for store in stores.values())
    if graphs != facts.graphs:
        ours, theirs = (" / ".join(f"{n:,}" for n in counts) for counts in (graphs, facts.graphs))
        found.append(f"{name} has {ours} graphs; the official release has {theirs}")
    mean = sum(int(store.sizes.sum()) for store in stores.values()) / sum(graphs)
    if facts.mean_nodes is not None and abs(mean / facts.mean_nodes - 1) > 0.01:
        found.append(
            f"{name} has {mean:.1f} nodes a graph; the official release has {facts.mean_nodes:.1f}"
        )
    for split, first in zip(stores, facts.first or (), strict=bool(facts.first)):
        if not _begins_with(stores[split], first):
            found.append(f"{name} {split} does not begin with the official graph: others are in it")
    return found


def _begins_with(store: GraphStore, first: FirstGraph) -> bool:
    # The answer may be off by a version of RDKit, but not by as much as molecules differ.
    close = abs(float(store.y[0]) - first.answer) < 1e-3
    return close and (int(store.sizes[0]), int(store.num_edges[0])) == (first.nodes, first.edges)
