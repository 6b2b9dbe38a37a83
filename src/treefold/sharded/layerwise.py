"""Inference on a whole graph, layer by layer, in a given amount of memory.

Every layer is computed for all nodes before the next begins, so no neighbourhood is expanded twice.
Targets are taken in chunks, with all their edges, so the answer is that of the whole graph.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from treefold.aggregators import reuse_plans
from treefold.reduction import Groups
from treefold.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class Targets:
    """Some nodes with all edges that come in, as a graph from `sources` to them."""

    nodes: slice
    sources: Int[Tensor, " sources"]
    edge_index: Int[Tensor, " 2 edges"]


@dataclass(frozen=True, eq=False)
class GraphChunks:
    """A graph in chunks of targets; made once, used by every layer and every call."""

    num_nodes: int
    chunks: tuple[Targets, ...]

    @classmethod
    def of(
        cls, edge_index: Int[Tensor, " 2 edges"], num_nodes: int, edges_per_chunk: int
    ) -> "GraphChunks":
        """Chunks of nodes with at most `edges_per_chunk` edges together."""
        groups = Groups.from_index(edge_index[1], num_nodes)
        if groups.max_size > edges_per_chunk:
            raise ValueError(
                f"node {int(groups.sizes.argmax())} has {groups.max_size:,} edges, but a chunk "
                f"may have {edges_per_chunk:,}; give a larger budget, or fold with "
                "`fold_in_budget`, which cuts hubs into pieces"
            )
        sources, ends = edge_index[0][groups.order], groups.sizes.cumsum(0)
        chunks, node, edge = [], 0, 0
        while node < num_nodes:
            until = int(torch.searchsorted(ends, edge + edges_per_chunk, right=True))
            last = int(ends[until - 1])
            used, source = torch.unique(sources[edge:last], return_inverse=True)
            target = torch.repeat_interleave(groups.sizes[node:until])
            chunks.append(Targets(slice(node, until), used, torch.stack([source, target])))
            node, edge = until, last
        return cls(num_nodes, tuple(chunks))

    @torch.no_grad()
    def layer(
        self, conv: Callable[..., Tensor], x: Float[Tensor, " nodes channels"]
    ) -> Float[Tensor, " nodes out"]:
        """One layer for all nodes: `conv((sources, targets), edge_index)`, chunk by chunk."""
        if x.shape[0] != self.num_nodes:
            raise ValueError(f"x has {x.shape[0]} rows, but the graph has {self.num_nodes} nodes")
        out: Tensor | None = None
        for chunk in self.chunks:
            made = conv((x[chunk.sources], x[chunk.nodes]), chunk.edge_index)
            if out is None:
                out = made.new_empty(self.num_nodes, *made.shape[1:])
            out[chunk.nodes] = made
        assert out is not None
        return out


BUFFERS_PER_EDGE = 6
"""Rows that a layer holds per edge: its message, its state, its node, and copies on the way."""


def infer_layerwise(
    layers: Sequence[Callable[..., Any]],
    x: Float[Tensor, " nodes channels"],
    edge_index: Int[Tensor, " 2 edges"],
    budget_bytes: int,
) -> Tensor:
    """Apply layers to a whole graph, without gradients, with about `budget_bytes` for edges.

    PyG's layers that take `(x_source, x_target)` are computed in chunks of targets; all else, such
    as activations, is applied to all nodes at once. Plans are made at the first layer and kept for
    the others. Node features, twice, and the graph itself come on top of the budget.
    """
    widest = max([x.shape[1], *(getattr(layer, "out_channels", 0) for layer in layers)])
    edges = budget_bytes // (BUFFERS_PER_EDGE * widest * x.element_size())
    graph = GraphChunks.of(edge_index, x.shape[0], edges)
    with torch.no_grad(), reuse_plans():
        for layer in layers:
            x = graph.layer(layer, x) if isinstance(layer, MessagePassing) else layer(x)
    return x
