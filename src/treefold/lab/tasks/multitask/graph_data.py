"""Labelled graphs: many in a few tensors, cut into batches without a loop."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from treefold.fold import Groups
from treefold.lab.tasks.set_data import rows_of, starts
from treefold.shapes import Float, Int

TARGETS = ("sssp", "eccentricity", "laplacian", "connected", "diameter", "spectral-radius")
"""The three targets of each node, then the three of each graph."""


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """One graph, nodes numbered from 0."""

    x: Float[Tensor, " n 2"]
    edge_index: Int[Tensor, " 2 edges"]
    node_y: Float[Tensor, " n 3"]
    graph_y: Float[Tensor, " 3"]

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.x.shape[0]


@dataclass(frozen=True, eq=False)
class GraphData:
    """Graphs one after the other, as one graph of many components: a batch, or a whole split.

    Nodes are numbered through all graphs. Edges are there in both directions, sorted, without
    self-loops and repetitions.
    """

    x: Float[Tensor, " nodes 2"]
    """1 for the source and 0 for others, and the random value of the node."""
    edge_index: Int[Tensor, " 2 edges"]
    node_y: Float[Tensor, " nodes 3"]
    graph_y: Float[Tensor, " graphs 3"]
    sizes: Int[Tensor, " graphs"]
    num_edges: Int[Tensor, " graphs"]
    """Columns of `edge_index` of each graph."""
    families: Int[Tensor, " graphs"]
    """The number of its family in `FAMILIES`."""

    def __len__(self) -> int:
        return self.sizes.numel()

    def graphs(self) -> list[LabelledGraph]:
        """The graphs one by one, nodes and answers as views of these tensors."""
        nodes, edges = self.sizes.tolist(), self.num_edges.tolist()
        within = self.edge_index - torch.repeat_interleave(starts(self.sizes), self.num_edges)
        parts = (self.x.split(nodes), within.split(edges, 1), self.node_y.split(nodes))
        return [
            LabelledGraph(x, edge_index.contiguous(), node_y, graph_y)
            for x, edge_index, node_y, graph_y in zip(*parts, self.graph_y, strict=True)
        ]

    @cached_property
    def groups(self) -> Groups:
        """The nodes of each graph; `groups.index` is PyG's `batch`."""
        return Groups.from_sizes(self.sizes)

    @cached_property
    def degrees(self) -> Int[Tensor, " nodes"]:
        """The number of neighbours of each node."""
        return torch.bincount(self.edge_index[0], minlength=self.x.shape[0])

    def take(self, graphs: Int[Tensor, " chosen"]) -> "GraphData":
        """The graphs with these numbers, in this order."""
        sizes, num_edges = self.sizes[graphs], self.num_edges[graphs]
        nodes = rows_of(self.sizes, graphs)
        shift = starts(sizes) - starts(self.sizes)[graphs]
        edges = self.edge_index[:, rows_of(self.num_edges, graphs)]
        return GraphData(
            x=self.x[nodes],
            edge_index=edges + torch.repeat_interleave(shift, num_edges),
            node_y=self.node_y[nodes],
            graph_y=self.graph_y[graphs],
            sizes=sizes,
            num_edges=num_edges,
            families=self.families[graphs],
        )

    def by_size(self) -> list["GraphData"]:
        """One batch for each size, the smallest first, as PNA trains and scores."""
        return [
            self.take((self.sizes == size).nonzero().squeeze(1)) for size in self.sizes.unique()
        ]

    def to(self, device: torch.device | str) -> "GraphData":
        """The same graphs on another device."""
        moved = {name: getattr(self, name).to(device) for name in self.__dataclass_fields__}
        return GraphData(**moved)


class MultiTaskGraph(Data):  # type: ignore[misc]
    """A graph whose `graph_y` has shape [3], and [graphs, 3] in a batch."""

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """None for `graph_y`: PyG then stacks it."""
        return None if key == "graph_y" else super().__cat_dim__(key, value, *args, **kwargs)


def to_pyg(data: GraphData) -> list[MultiTaskGraph]:
    """The graphs one by one, ready for `DataLoader` and `Batch`."""
    return [
        MultiTaskGraph(
            x=graph.x,
            edge_index=graph.edge_index,
            node_y=graph.node_y,
            graph_y=graph.graph_y,
            num_nodes=graph.num_nodes,
        )
        for graph in data.graphs()
    ]
