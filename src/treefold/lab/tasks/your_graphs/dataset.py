"""A data set ready to be compared on: checked, encoded, split, with a digest of its contents."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, device

from treefold.lab.tasks import SPLITS, Categories, GraphBatch, GraphStore, Numbers, rows_of
from treefold.lab.tasks.set_data import moved
from treefold.lab.tasks.your_graphs.collected import Collected
from treefold.lab.tasks.your_graphs.problem import LEVELS, Level, Problem, problem_of
from treefold.lab.tasks.your_graphs.sources import read_dataset
from treefold.lab.tasks.your_graphs.splits import splits_of
from treefold.names import by_name
from treefold.shapes import Bool, Int, Shaped


@dataclass(frozen=True, eq=False)
class AskedBatch:
    """Graphs for a network, and the right answers."""

    graphs: GraphBatch
    asked: Int[Tensor, " asked"]
    """The network's answers that count, by number."""
    y: Shaped[Tensor, " asked *outputs"]
    """The right answers."""

    def __len__(self) -> int:
        return len(self.graphs)

    def to(self, where: device | str) -> "AskedBatch":
        """The same on another device."""
        return moved(self, where)


@dataclass(frozen=True, eq=False)
class Asked:
    """The graphs of one split; `y` and `asked` have a row for each graph of the store, or node."""

    store: GraphStore
    y: Shaped[Tensor, " answers *outputs"]
    asked: Bool[Tensor, " answers"]
    graphs: Int[Tensor, " split"]
    level: Level

    def __len__(self) -> int:
        return len(self.graphs)

    def take(self, chosen: Int[Tensor, " chosen"]) -> AskedBatch:
        """The graphs at these places of the split, in this order."""
        graphs = self.graphs[chosen]
        rows = rows_of(self.store.sizes, graphs) if self.level == "node" else graphs
        asked = self.asked[rows].nonzero().squeeze(1)
        return AskedBatch(self.store.take(graphs), asked, self.y[rows[asked]])

    def to(self, where: device | str) -> "Asked":
        """The same on another device; batches are then cut there."""
        return moved(self, where)


MOST_CATEGORIES = 100_000


@dataclass(frozen=True)
class Origin:
    """The words that name a data set, to read it again; none for graphs given in memory."""

    dataset: str = ""
    data: str | None = None
    kind: str | None = None
    metric: str | None = None
    split: str | None = None
    source_digest: str | None = None


@dataclass(frozen=True, eq=False)
class Dataset:
    """The graphs that every aggregator is trained on, and the problem that they pose."""

    name: str
    problem: Problem
    node_input: Categories | Numbers
    edge_input: Categories | Numbers | None
    splits: Mapping[str, Asked]
    digest: str
    """A digest of everything in it; another one when the data changes."""
    notes: tuple[str, ...]
    """Sentences about how it was read."""
    origin: Origin = Origin()

    @property
    def train(self) -> Asked:
        """The split to learn from."""
        return self.splits["train"]

    def answers(self, split: str) -> Tensor:
        """All answers that a split asks for."""
        part = self.splits[split]
        return part.y[part.asked]

    def facts(self) -> dict[str, Any]:
        """Plain data about it, for a record."""
        store = self.train.store
        return {
            "name": self.name,
            "digest": self.digest,
            "level": self.problem.level,
            "kind": self.problem.kind,
            "metric": self.problem.metric,
            "num_outputs": self.problem.num_outputs,
            "num_graphs": len(store),
            "num_nodes": int(store.sizes.sum()),
            "num_edges": int(store.num_edges.sum()),
            "largest_neighbourhood": int(store.in_degrees.max()),
            "answers": {name: int(part.asked.sum()) for name, part in self.splits.items()},
            "notes": list(self.notes),
        }


def load_dataset(
    dataset: str,
    data: Path | None = None,
    kind: str | None = None,
    metric: str | None = None,
    split: str | None = None,
) -> Dataset:
    """A dataset by name or from a Python file; a ValueError for what cannot be compared on."""
    digest = digest_of(Path(dataset)) if dataset.endswith(".py") else None
    name, collected = read_dataset(dataset, data)
    found = dataset_of(name, collected, kind, metric, split)
    where = None if data is None else str(data)
    return replace(found, origin=Origin(dataset, where, kind, metric, split, digest))


def digest_of(path: Path) -> str | None:
    """The SHA-256 of a file; None if there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def dataset_of(
    name: str,
    data: Collected,
    kind: str | None = None,
    metric: str | None = None,
    split: str | None = None,
) -> Dataset:
    """The dataset, checked; `split` is node or graph, to draw splits of these at random."""
    by = None if split is None else by_name(LEVELS, split, "split")
    if not int(data.num_edges.sum()):
        raise ValueError(
            "the dataset has no edges, so there are no neighbours to aggregate; give edge_index"
        )
    problem, y = problem_of(data, kind, metric)
    classes = y if problem.kind == "classification" else None
    splits, source = splits_of(data, problem.level, classes, by)
    notes = [*data.notes, source]
    nodes = data.x
    if nodes is None or not nodes.shape[1]:
        nodes = _degrees_as_input(data)
        notes.append("The nodes carry nothing; ln(1 + number of neighbours) stands in for x.")
    edges = data.edge_attr if data.edge_attr is not None and data.edge_attr.shape[1] else None
    node_input = _input(nodes, "x")
    edge_input = None if edges is None else _input(edges, "edge_attr")
    if edges is None:
        edges = torch.empty(int(data.num_edges.sum()), 0)
    store = _store(data, _narrow(nodes), _narrow(edges))
    parts = {
        each: Asked(store, y, split.asked, split.graphs, problem.level)
        for each, split in splits.items()
    }
    _require_classes(problem, {each: part.y[part.asked] for each, part in parts.items()})
    digest = _digest([store.x, store.edge_index, store.edge_attr, store.sizes, y], parts)
    return Dataset(name, problem, node_input, edge_input, parts, digest, tuple(notes))


def _require_classes(problem: Problem, answers: Mapping[str, Tensor]) -> None:
    """Two classes to learn from; for ROC-AUC, which compares classes, to be scored on too."""
    splits = SPLITS if problem.metric == "roc-auc" else ("train",)
    for split in splits if problem.kind == "classification" else ():
        if len(answers[split].unique()) < 2:
            raise ValueError(
                f"the split {split} has one class only; expected two or more, for {problem.metric}"
            )


def _degrees_as_input(data: Collected) -> Tensor:
    degrees = torch.bincount(data.global_edges()[1], minlength=int(data.sizes.sum()))
    return torch.log1p(degrees.double()).float().unsqueeze(1)


def _narrow(values: Tensor) -> Tensor:
    return values.float() if values.is_floating_point() else values.long()


def _input(values: Tensor, what: str) -> Categories | Numbers:
    """Whole numbers are categories, floats are numbers."""
    if values.is_complex():
        raise ValueError(f"{what} is complex; expected real numbers or whole numbers")
    if values.is_floating_point():
        bad = int((~values.isfinite()).sum())
        if bad:
            row = int((~values.isfinite()).any(1).int().argmax())
            raise ValueError(
                f"{what} has {bad:,} entries that are NaN or infinite, the first in row {row}; "
                "fill them in or leave those rows out"
            )
        return Numbers(values.shape[1])
    values = values.long()
    lowest, highest = int(values.min()), int(values.max())
    if lowest < 0 or highest >= MOST_CATEGORIES:
        raise ValueError(
            f"{what} holds whole numbers from {lowest:,} to {highest:,}, which are taken for "
            f"categories; expected 0 to {MOST_CATEGORIES - 1:,}: make {what} floats if they are "
            "quantities"
        )
    return Categories(tuple(int(column) + 1 for column in values.max(0).values))


def _store(data: Collected, x: Tensor, edge_attr: Tensor) -> GraphStore:
    """Edges sorted by the node they point to, which makes messages to a node consecutive."""
    order = torch.argsort(data.global_edges()[1], stable=True)
    return GraphStore(
        x=x,
        edge_index=data.edge_index[:, order],
        edge_attr=edge_attr[order],
        y=torch.arange(len(data.sizes)),  # answers are next to it, for nodes or graphs
        sizes=data.sizes,
        num_edges=data.num_edges,
    )


def _digest(tensors: list[Tensor], parts: Mapping[str, Asked]) -> str:
    digest = hashlib.sha256()
    for tensor in [*tensors, *(part.asked for part in parts.values())]:
        digest.update(f"{tensor.dtype}{list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
