"""A dataset ready to be compared on: checked, encoded, split, with a name for what is in it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from treefold.lab.compare.collected import Collected
from treefold.lab.compare.examples import Asked
from treefold.lab.compare.problem import Question, question_of
from treefold.lab.compare.sources import read_dataset
from treefold.lab.compare.splits import splits_of
from treefold.lab.tasks import SPLITS, Categories, GraphStore, Numbers

MOST_CATEGORIES = 100_000


@dataclass(frozen=True, eq=False)
class Dataset:
    """What every aggregator is trained on."""

    name: str
    question: Question
    node_input: Categories | Numbers
    edge_input: Categories | Numbers | None
    splits: Mapping[str, Asked]
    digest: str
    """Of everything in it; another one when the data changes."""
    notes: tuple[str, ...]
    """How it was read, in sentences."""

    @property
    def train(self) -> Asked:
        """What is learned from."""
        return self.splits["train"]

    def answers(self, split: str) -> Tensor:
        """All answers that a split asks for."""
        part = self.splits[split]
        return part.y[part.asked]

    def facts(self) -> dict[str, Any]:
        """What a record says of it."""
        store = self.train.store
        return {
            "name": self.name,
            "digest": self.digest,
            "level": self.question.level,
            "kind": self.question.kind,
            "metric": self.question.metric,
            "num_outputs": self.question.num_outputs,
            "num_graphs": len(store),
            "num_nodes": int(store.sizes.sum()),
            "num_edges": int(store.num_edges.sum()),
            "largest_neighbourhood": int(store.in_degrees.max()),
            "answers": {name: int(part.asked.sum()) for name, part in self.splits.items()},
            "notes": list(self.notes),
        }


def load_dataset(
    dataset: str, data: Path | None = None, kind: str | None = None, metric: str | None = None
) -> Dataset:
    """A dataset by name or from a Python file; a ValueError for what cannot be compared on."""
    name, collected = read_dataset(dataset, data)
    return dataset_of(name, collected, kind, metric)


def dataset_of(
    name: str, data: Collected, kind: str | None = None, metric: str | None = None
) -> Dataset:
    """The dataset, checked."""
    if not int(data.num_edges.sum()):
        raise ValueError(
            "the dataset has no edges, so there are no neighbours to aggregate; give edge_index"
        )
    question, y = question_of(data, kind, metric)
    classes = y if question.kind == "classification" else None
    splits, source = splits_of(data, question.level, classes)
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
        each: Asked(store, y, split.asked, split.graphs, question.level)
        for each, split in splits.items()
    }
    _require_classes(question, {each: part.y[part.asked] for each, part in parts.items()})
    digest = _digest([store.x, store.edge_index, store.edge_attr, store.sizes, y], parts)
    return Dataset(name, question, node_input, edge_input, parts, digest, tuple(notes))


def _require_classes(question: Question, answers: Mapping[str, Tensor]) -> None:
    """Two classes to learn from; for ROC-AUC, which compares classes, to be scored on too."""
    splits = SPLITS if question.metric == "roc-auc" else ("train",)
    for split in splits if question.kind == "classification" else ():
        if len(answers[split].unique()) < 2:
            raise ValueError(
                f"the split {split} has one class only; expected two or more, for {question.metric}"
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
    """Edges sorted by the node they point to, so that messages to a node are consecutive."""
    order = torch.argsort(data.global_edges()[1], stable=True)
    return GraphStore(
        x=x,
        edge_index=data.edge_index[:, order],
        edge_attr=edge_attr[order],
        y=torch.arange(len(data.sizes)),  # answers are kept beside it, for nodes or graphs
        sizes=data.sizes,
        num_edges=data.num_edges,
    )


def _digest(tensors: list[Tensor], parts: Mapping[str, Asked]) -> str:
    digest = hashlib.sha256()
    for tensor in [*tensors, *(part.asked for part in parts.values())]:
        digest.update(f"{tensor.dtype}{list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
