"""Labelled graphs: many in a few tensors, cut into batches without a loop."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from treefold.fold import Groups
from treefold.lab.tasks.set_data import moved, rows_of, starts
from treefold.shapes import Float, Int

TARGETS = ("sssp", "eccentricity", "laplacian", "connected", "diameter", "spectral-radius")
"""The three targets of each node, then the three of each graph."""


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

    def to(self, device: torch.device | str) -> "GraphData":
        """The same graphs on another device."""
        return moved(self, device)
