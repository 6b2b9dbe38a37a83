"""Graphs of any PyG dataset in a few tensors, as they come; their problem is inferred later."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from treefold.lab.tasks import SPLITS, starts
from treefold.shapes import Int, Shaped


@dataclass(frozen=True, eq=False)
class Collected:
    """Many graphs one after the other; nodes are numbered in each graph.

    `num_answers` is the number of rows of `y` of each graph: one for itself, or one for each node.
    """

    x: Shaped[Tensor, " nodes node_channels"] | None
    edge_index: Int[Tensor, " 2 edges"]
    edge_attr: Shaped[Tensor, " edges edge_channels"] | None
    y: Shaped[Tensor, " answers *outputs"] | None
    sizes: Int[Tensor, " graphs"]
    num_edges: Int[Tensor, " graphs"]
    num_answers: Int[Tensor, " graphs"]
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    """The nodes of each split, where the data has splits."""
    graphs: Mapping[str, Tensor] = field(default_factory=dict)
    """The graphs of each split, where the data has splits."""
    notes: tuple[str, ...] = ()
    """Sentences about whatever was read in a way that is not obvious."""

    def global_edges(self) -> Int[Tensor, " 2 edges"]:
        """The edges with nodes numbered through all graphs."""
        return self.edge_index + torch.repeat_interleave(starts(self.sizes), self.num_edges)


def collect(graphs: Iterable[Any]) -> Collected:
    """PyG's graphs in this order."""
    rows = list(graphs)
    if not rows:
        raise ValueError("the dataset has no graphs; expected at least one")
    sizes = torch.tensor([_num_nodes(graph, number) for number, graph in enumerate(rows)])
    edges = [_edges(graph, number) for number, graph in enumerate(rows)]
    answers = [_answers(graph) for graph in rows]
    notes: list[str] = []
    return Collected(
        x=_stacked(rows, "x") if _has(rows, "x") else _positions(rows, notes),
        edge_index=torch.cat(edges, 1),
        edge_attr=_stacked(rows, "edge_attr" if _has(rows, "edge_attr") else "edge_weight"),
        y=None if None in answers else torch.cat([a for a in answers if a is not None]),
        sizes=sizes,
        num_edges=torch.tensor([each.shape[1] for each in edges]),
        num_answers=torch.tensor([0 if a is None else len(a) for a in answers]),
        masks=_masks(rows, notes),
        notes=tuple(notes),
    )


def collect_splits(splits: Mapping[str, Sequence[Any]]) -> Collected:
    """The graphs of train, val and test, which know where they belong."""
    lists = {name: list(splits[name]) for name in SPLITS}
    for name, graphs in lists.items():
        if not graphs:
            raise ValueError(f"the split {name} has no graphs; expected at least one")
    together = collect(chain.from_iterable(lists.values()))
    numbers = torch.arange(len(together.sizes)).split([len(graphs) for graphs in lists.values()])
    named = dict(zip(SPLITS, numbers, strict=True))
    return Collected(**{**vars(together), "masks": {}, "graphs": named})


def _num_nodes(graph: Any, number: int) -> int:
    if not isinstance(graph, Data):
        raise ValueError(
            f"graph {number} is a {type(graph).__name__}; expected torch_geometric.data.Data with "
            "one kind of nodes and edges"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyG guesses the number from the edges, and warns
        try:
            count = graph.num_nodes
        except UserWarning:
            count = None
    if not count:
        problem = "has no nodes" if count == 0 else "has an unknown number of nodes"
        raise ValueError(f"graph {number} {problem}; give x or num_nodes")
    return int(count)


def _edges(graph: Any, number: int) -> Tensor:
    if graph.get("edge_index") is None and graph.get("adj_t") is not None:
        raise ValueError(
            f"graph {number} has its edges in adj_t; expected edge_index: leave out ToSparseTensor"
        )
    edges = graph.get("edge_index")
    if edges is None:
        return torch.empty(2, 0, dtype=torch.int64)
    if edges.dim() != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise ValueError(
            f"graph {number} has an edge_index of {edges.dtype} and shape {list(edges.shape)}; "
            "expected whole numbers of shape [2, edges]"
        )
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < graph.num_nodes:
        raise ValueError(
            f"graph {number} has edges between nodes {int(edges.min())} and {int(edges.max())}, "
            f"but {graph.num_nodes} nodes"
        )
    found: Tensor = edges.long()
    return found


def _answers(graph: Any) -> Tensor | None:
    y = graph.get("y")
    if y is None:
        return None
    y = torch.as_tensor(y)
    return y.reshape(1) if y.dim() == 0 else y


def _has(graphs: Sequence[Any], name: str) -> bool:
    return any(graph.get(name) is not None for graph in graphs)


def _positions(graphs: Sequence[Any], notes: list[str]) -> Tensor | None:
    if not _has(graphs, "pos"):
        return None
    notes.append("The nodes have no x; their pos is used.")
    return _stacked(graphs, "pos")


def _stacked(graphs: Sequence[Any], name: str) -> Tensor | None:
    """The rows of all graphs, as a table."""
    found = [graph.get(name) for graph in graphs]
    if all(each is None for each in found):
        return None
    tables = []
    for number, (graph, each) in enumerate(zip(graphs, found, strict=True)):
        rows = graph.num_edges if name.startswith("edge_") else graph.num_nodes
        if not isinstance(each, Tensor):
            raise ValueError(f"graph {number} has no tensor {name}, though others have")
        if each.layout != torch.strided:
            each = each.to_dense()
        if each.dim() == 0 or len(each) != rows:
            raise ValueError(
                f"{name} of graph {number} has shape {list(each.shape)}; expected {rows} rows"
            )
        tables.append(each.reshape(rows, each.shape[1:].numel()))
    widths = {table.shape[1] for table in tables}
    if len(widths) > 1:
        raise ValueError(f"{name} has {sorted(widths)} columns in different graphs; expected one")
    return torch.cat(tables)


def _masks(graphs: Sequence[Any], notes: list[str]) -> dict[str, Tensor]:
    names = [name for name in SPLITS if _has(graphs, f"{name}_mask")]
    if not names:
        return {}
    if len(names) < len(SPLITS):
        missing = ", ".join(f"{name}_mask" for name in SPLITS if name not in names)
        raise ValueError(f"the dataset has no {missing}; expected all three masks or none of them")
    masks = {name: _stacked(graphs, f"{name}_mask") for name in names}
    if any(mask is not None and mask.shape[1] > 1 for mask in masks.values()):
        notes.append("The data has several splits as columns of its masks; the first is used.")
    return {name: mask[:, 0].bool() for name, mask in masks.items() if mask is not None}
