"""Labelled graphs: many in a few tensors, cut into batches without a loop."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from treefold.fold import Groups
from treefold.lab.tasks.ragged import rows_of, starts
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
        """How many nodes it has."""
        return self.x.shape[0]


@dataclass(frozen=True, eq=False)
class GraphData:
    """Graphs one after the other, as one graph of many components: a batch, or a whole split.

    Nodes are numbered through all graphs. Edges are there in both directions, sorted, without
    self-loops and repetitions.
    """

    x: Float[Tensor, " nodes 2"]
    """Whether the node is the source, and its random value."""
    edge_index: Int[Tensor, " 2 edges"]
    node_y: Float[Tensor, " nodes 3"]
    graph_y: Float[Tensor, " graphs 3"]
    sizes: Int[Tensor, " graphs"]
    num_edges: Int[Tensor, " graphs"]
    """How many columns of `edge_index` each graph has."""
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
        """Which nodes sit together in a graph; `groups.index` is what PyG calls `batch`."""
        return Groups.from_sizes(self.sizes)

    @cached_property
    def degrees(self) -> Int[Tensor, " nodes"]:
        """How many neighbours each node has."""
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
