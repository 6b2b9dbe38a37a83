"""A batch of graphs, the largest first: graphs that are done leave from the end.

How often a network is applied to a graph may depend on the graph's size. With the largest first,
the nodes still at work are always the first ones, and so are their edges:

    sizes   5 5 3 2
    nodes   ##### ##### ### ##    all take part until the graph of 2 is done,
            ##### ##### ###       then these, until the graph of 3 is done,
            ##### #####           then these
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from treefold.fold import INTEGER_TYPES, Groups, places_within
from treefold.shapes import Int


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Directed edges, sorted by receiver; the edges of a receiver keep the order they came in."""

    source: Int[Tensor, " edges"]
    groups: Groups
    """The edges of each receiver: one group per node."""

    @property
    def num_nodes(self) -> int:
        """The number of nodes, those without edges included."""
        return self.groups.num_groups

    @property
    def receiver(self) -> Int[Tensor, " edges"]:
        """The node that each edge points to."""
        return self.groups.index

    @cached_property
    def edge_index(self) -> Int[Tensor, " 2 edges"]:
        """The edges as PyG has them."""
        return torch.stack([self.source, self.receiver])

    @cached_property
    def normalized(self) -> tuple[Tensor, Tensor]:
        """The edges and a self-loop for each node, with GCN's weights D^-½ (A + I) D^-½."""
        edge_index, weight = gcn_norm(self.edge_index, num_nodes=self.num_nodes)
        return edge_index, weight

    def among_first(self, num_nodes: int) -> "Neighbours":
        """The edges of the first nodes, which must not reach beyond them."""
        if num_nodes == self.num_nodes:
            return self
        degrees = self.groups.sizes[:num_nodes]
        return Neighbours(self.source[: int(degrees.sum())], Groups.from_sizes(degrees))


@dataclass(frozen=True, eq=False)
class GraphLayout:
    """The order of nodes and graphs in a batch: `x[layout.nodes]` has the largest graph first."""

    sizes: Int[Tensor, " graphs"]
    """Nodes of each graph, from the largest to the smallest."""
    graphs: Int[Tensor, " graphs"]
    """The graph of the batch at each place."""
    nodes: Int[Tensor, " n"]
    """The node of the batch at each place."""
    neighbours: Neighbours

    @classmethod
    def of(
        cls,
        num_nodes: int,
        edge_index: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> "GraphLayout":
        """Build a layout from PyG's arguments, or raise a ValueError about them."""
        if batch is None:
            batch = torch.zeros(num_nodes, dtype=torch.int64, device=edge_index.device)
            batch_size = 1 if batch_size is None else batch_size
        by_graph = graphs_of(batch, batch_size, num_nodes)
        check_edges(edge_index, batch, num_nodes)
        sizes, graphs = by_graph.sizes.sort(descending=True, stable=True)
        starts = by_graph.sizes.cumsum(0) - by_graph.sizes
        nodes = torch.repeat_interleave(starts[graphs], sizes) + places_within(sizes)
        source, receiver = inverse(nodes)[edge_index]
        by_receiver = Groups.from_index(receiver, num_nodes)
        incoming = Neighbours(source[by_receiver.order], Groups.from_sizes(by_receiver.sizes))
        return cls(sizes, graphs, nodes, incoming)

    @cached_property
    def groups(self) -> Groups:
        """The nodes of each graph."""
        return Groups.from_sizes(self.sizes)

    @cached_property
    def blocks(self) -> list[tuple[int, int]]:
        """Graphs of the same size stand together: how many, and their size; the largest first."""
        sizes, counts = torch.unique_consecutive(self.sizes, return_counts=True)
        return list(zip(counts.tolist(), sizes.tolist(), strict=True))

    def leaving(self) -> Iterator[tuple[int, Neighbours, int]]:
        """From the smallest size on: the size, the edges of graphs that are at least so large,
        and how many nodes will stay when the graphs of this size have left."""
        num_nodes = self.nodes.numel()
        for num_graphs, size in reversed(self.blocks):
            stay = num_nodes - num_graphs * size
            yield size, self.neighbours.among_first(num_nodes), stay
            num_nodes = stay


def inverse(order: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The permutation that undoes another."""
    back = torch.empty_like(order)
    back[order] = torch.arange(order.numel(), device=order.device)
    return back


def graphs_of(batch: Tensor, batch_size: int | None, num_nodes: int) -> Groups:
    """Group the nodes by graph, or raise a ValueError about `batch`."""
    if batch.numel() != num_nodes:
        raise ValueError(f"batch has {batch.numel()} entries, but there are {num_nodes} nodes")
    if bool((batch[1:] < batch[:-1]).any()):
        raise ValueError(
            "batch is not sorted; expected the nodes of each graph one after the other, as "
            "torch_geometric.data.Batch has them"
        )
    return Groups.from_index(batch, batch_size)


def check_edges(edge_index: Tensor, batch: Tensor, num_nodes: int) -> None:
    """Refuse edges that are no pairs of nodes of the same graph."""
    if edge_index.dtype not in INTEGER_TYPES or edge_index.dim() != 2 or len(edge_index) != 2:
        raise ValueError(
            f"edge_index is {edge_index.dtype} of shape {tuple(edge_index.shape)}; expected "
            "integers of shape [2, edges]"
        )
    if not edge_index.numel():
        return
    lowest, highest = int(edge_index.min()), int(edge_index.max())
    if lowest < 0 or highest >= num_nodes:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"edge_index names node {wrong}; expected 0 to {num_nodes - 1}")
    of_source, of_receiver = batch[edge_index.long()]
    if bool((of_source != of_receiver).any()):
        place = int((of_source != of_receiver).nonzero()[0])
        source, receiver = edge_index[:, place].tolist()
        raise ValueError(
            f"edge {place} joins node {source} of graph {int(of_source[place])} to node "
            f"{receiver} of graph {int(of_receiver[place])}; expected edges within graphs"
        )
