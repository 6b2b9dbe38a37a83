"""Graphs with one answer each: a whole split in a few compact tensors, cut without a loop."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from treefold.fold import Groups
from treefold.lab.tasks.cache import Arrays
from treefold.lab.tasks.set_data import rows_of, starts
from treefold.shapes import Int, Shaped

SPLITS = ("train", "val", "test")
"""Names of the splits, in the order in which files and tuples have them."""


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Graphs as one graph of many components, ready for a network.

    Nodes are numbered through all graphs; edges point from `edge_index[0]` to `edge_index[1]` and
    are sorted by the node they point to: the messages to a node are consecutive rows.
    """

    x: Shaped[Tensor, " nodes node_channels"]
    """Categories as int64, or numbers as float32."""
    edge_index: Int[Tensor, " 2 edges"]
    edge_attr: Shaped[Tensor, " edges edge_channels"]
    """Categories as int64, or numbers as float32."""
    y: Shaped[Tensor, " graphs"]
    """A float target (0 and 1 for two classes), or the number of a class as int64."""
    sizes: Int[Tensor, " graphs"]
    """The number of nodes of each graph."""

    def __len__(self) -> int:
        return self.sizes.numel()

    @cached_property
    def groups(self) -> Groups:
        """The nodes of each graph; `groups.index` is PyG's `batch`."""
        return Groups.from_sizes(self.sizes)

    @cached_property
    def in_degrees(self) -> Int[Tensor, " nodes"]:
        """The number of edges that point to each node: the messages it gets."""
        return torch.bincount(self.edge_index[1], minlength=self.x.shape[0])

    @cached_property
    def neighbours(self) -> Groups:
        """The edges that point to each node."""
        return Groups.from_sizes(self.in_degrees)

    def to(self, device: torch.device | str) -> "GraphBatch":
        """The same graphs on another device."""
        return GraphBatch(**{name: t.to(device) for name, t in tensors_of(self).items()})


@dataclass(frozen=True, eq=False)
class GraphStore:
    """Many graphs one after the other, in small number types; nodes are numbered in each graph.

    A store is held in memory, a `GraphBatch` goes to a network: `store.take(numbers)`.
    """

    x: Shaped[Tensor, " nodes node_channels"]
    edge_index: Int[Tensor, " 2 edges"]
    """Sorted in each graph by the node that an edge points to."""
    edge_attr: Shaped[Tensor, " edges edge_channels"]
    y: Shaped[Tensor, " graphs"]
    sizes: Int[Tensor, " graphs"]
    num_edges: Int[Tensor, " graphs"]

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "GraphStore":
        """The store of arrays named like its fields."""
        return cls(**{name: torch.from_numpy(array) for name, array in arrays.items()})

    def __len__(self) -> int:
        return self.sizes.numel()

    def take(self, graphs: Int[Tensor, " chosen"]) -> GraphBatch:
        """The graphs with these numbers, in this order."""
        nodes, edges = rows_of(self.sizes, graphs), rows_of(self.num_edges, graphs)
        sizes = self.sizes[graphs]
        shift = torch.repeat_interleave(starts(sizes), self.num_edges[graphs])
        return GraphBatch(
            x=_widened(self.x[nodes]),
            edge_index=self.edge_index[:, edges] + shift,
            edge_attr=_widened(self.edge_attr[edges]),
            y=_widened(self.y[graphs]),
            sizes=sizes,
        )

    def arrays(self) -> Arrays:
        """The same as arrays, for a file."""
        return {name: tensor.numpy() for name, tensor in tensors_of(self).items()}

    def only(self, graphs: Int[Tensor, " chosen"]) -> "GraphStore":
        """A store of the graphs with these numbers, in this order."""
        nodes, edges = rows_of(self.sizes, graphs), rows_of(self.num_edges, graphs)
        return GraphStore(
            x=self.x[nodes],
            edge_index=self.edge_index[:, edges],
            edge_attr=self.edge_attr[edges],
            y=self.y[graphs],
            sizes=self.sizes[graphs],
            num_edges=self.num_edges[graphs],
        )

    @cached_property
    def out_degrees(self) -> Int[Tensor, " nodes"]:
        """The number of edges that leave each node."""
        return self._degrees(0)

    @cached_property
    def in_degrees(self) -> Int[Tensor, " nodes"]:
        """The number of edges that point to each node: the messages it gets."""
        return self._degrees(1)

    def to(self, device: torch.device | str) -> "GraphStore":
        """The same graphs on another device; batches are then cut there."""
        return GraphStore(**{name: t.to(device) for name, t in tensors_of(self).items()})

    def _degrees(self, end: int) -> Tensor:
        shift = torch.repeat_interleave(starts(self.sizes), self.num_edges)
        return torch.bincount(self.edge_index[end] + shift, minlength=self.x.shape[0])


def tensors_of(graphs: GraphBatch | GraphStore) -> dict[str, Tensor]:
    """The tensors of a batch or store, by name."""
    return {name: getattr(graphs, name) for name in graphs.__dataclass_fields__}


def average_log_degree(train: GraphStore) -> float:
    """δ of PNA's scalers: the mean over all nodes of ln(degree + 1).

    PNA counts the edges that leave a node. Molecules have each bond in both directions; a
    superpixel always has eight, though the scalers then look at the edges that arrive.
    """
    return float(torch.log(train.out_degrees.double() + 1).mean())


def _widened(values: Tensor) -> Tensor:
    return values.float() if values.is_floating_point() else values.long()


LARGEST_GRAPH = np.iinfo(np.int16).max


class RawGraph(NamedTuple):
    """One graph as a file has it, nodes numbered from 0."""

    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray
    y: float | int


def stacked(graphs: Iterable[RawGraph], y_type: type[np.generic]) -> Arrays:
    """The arrays of graphs in this order."""
    rows = list(graphs)
    if not rows:
        raise ValueError("there are no graphs; expected at least one")
    x, edge_index, edge_attr, y = zip(*rows, strict=True)
    return graph_arrays(
        x=np.concatenate(x),
        edge_index=np.concatenate(edge_index, 1),
        edge_attr=np.concatenate(edge_attr),
        y=np.array(y, y_type),
        sizes=np.array([len(each) for each in x], np.int64),
        num_edges=np.array([each.shape[1] for each in edge_index], np.int64),
    )


def graph_arrays(**arrays: np.ndarray) -> Arrays:
    """The arrays of a `GraphStore`, checked, edges sorted by the node they point to.

    `edge_index` numbers nodes within each graph.
    """
    _check_lengths(arrays)
    sizes, num_edges, edge_index = arrays["sizes"], arrays["num_edges"], arrays["edge_index"]
    if int(sizes.max(initial=0)) > LARGEST_GRAPH:
        raise ValueError(f"a graph has {sizes.max()} nodes; expected at most {LARGEST_GRAPH}")
    if (edge_index < 0).any() or (edge_index >= np.repeat(sizes, num_edges)).any():
        raise ValueError("an edge names a node that its graph does not have")
    first = np.repeat(np.cumsum(sizes) - sizes, num_edges)
    order = np.argsort(edge_index[1] + first, kind="stable")
    return arrays | {
        "edge_index": np.ascontiguousarray(edge_index[:, order], np.int16),
        "edge_attr": np.ascontiguousarray(arrays["edge_attr"][order]),
    }


def _check_lengths(arrays: Arrays) -> None:
    expected = {
        "x": int(arrays["sizes"].sum()),
        "edge_attr": int(arrays["num_edges"].sum()),
        "y": len(arrays["sizes"]),
        "num_edges": len(arrays["sizes"]),
    }
    found = {name: len(arrays[name]) for name in expected}
    found["edges"], expected["edges"] = arrays["edge_index"].shape[1], expected["edge_attr"]
    for name, length in expected.items():
        if found[name] != length:
            raise ValueError(
                f"{name} has {found[name]} entries, expected {length}; the files do not belong "
                "together, or one is not whole: fetch them again"
            )
