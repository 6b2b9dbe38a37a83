"""Facts about the official releases, to recognize other files of the same form."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from treefold.lab.tasks.realworld.folders import data_folder, read_receipt
from treefold.lab.tasks.realworld.graphs import SPLITS, GraphStore
from treefold.lab.tasks.realworld.task import GraphTask
from treefold.lab.tasks.realworld.tasks import ZINC


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
    """In words, where the files of a task are not the official ones, or that one cannot tell.

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
