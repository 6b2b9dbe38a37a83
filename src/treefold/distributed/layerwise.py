"""Inference on a whole graph, layer by layer, in a given amount of memory.

Every layer is computed for all nodes before the next begins, so no neighbourhood is expanded twice.
Targets are taken in chunks, with all their edges, so the answer is that of the whole graph.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from treefold.aggr import reuse_plans
from treefold.fold import Groups
from treefold.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class Targets:
    """Some nodes with all edges that come in, in numbers of their own.

    The targets come first among the sources, as in the batches of PyG's `NeighborLoader`: a node
    has one number at both ends of an edge, so layers that add self-loops add the right ones.
    """

    nodes: slice
    sources: Int[Tensor, " sources"]
    edge_index: Int[Tensor, " 2 edges"]

    @classmethod
    def of(
        cls, nodes: slice, sources: Int[Tensor, " edges"], degrees: Int[Tensor, " targets"]
    ) -> "Targets":
        """The targets `nodes`; `sources` are those of their edges, target by target."""
        is_target = (sources >= nodes.start) & (sources < nodes.stop)
        others = torch.unique(sources[~is_target])
        place = torch.searchsorted(others, sources) + degrees.numel()
        source = torch.where(is_target, sources - nodes.start, place)
        targets = torch.arange(nodes.start, nodes.stop, device=sources.device)
        edge_index = torch.stack([source, torch.repeat_interleave(degrees)])
        return cls(nodes, torch.cat([targets, others]), edge_index)


@dataclass(frozen=True, eq=False)
class GraphChunks:
    """A graph in chunks of targets; made once, used by every layer and every call."""

    num_nodes: int
    chunks: tuple[Targets, ...]

    @classmethod
    def of(
        cls, edge_index: Int[Tensor, " 2 edges"], num_nodes: int, edges_per_chunk: int
    ) -> "GraphChunks":
        """Chunks of nodes that have, with a self-loop for each, at most `edges_per_chunk` edges."""
        groups = Groups.from_index(edge_index[1], num_nodes)
        if num_nodes and groups.max_size >= edges_per_chunk:
            raise ValueError(
                f"node {int(groups.sizes.argmax())} has {groups.max_size:,} edges and a self-loop, "
                f"but a chunk may have {edges_per_chunk:,}; give at least {groups.max_size + 1:,}, "
                "or fold with `fold_in_budget`, which cuts hubs into pieces"
            )
        sources, ends = edge_index[0][groups.order], groups.sizes.cumsum(0)
        costs = (groups.sizes + 1).cumsum(0)
        chunks: list[Targets] = []
        node = edge = 0
        while node < num_nodes or not chunks:  # a graph without nodes is one chunk without nodes
            until = int(torch.searchsorted(costs, edge + node + edges_per_chunk, right=True))
            last = int(ends[until - 1]) if until else 0
            chunk = Targets.of(slice(node, until), sources[edge:last], groups.sizes[node:until])
            chunks.append(chunk)
            node, edge = until, last
        return cls(num_nodes, tuple(chunks))

    @torch.no_grad()
    def layer(
        self, conv: Callable[..., Tensor], x: Float[Tensor, " nodes channels"]
    ) -> Float[Tensor, " nodes out"]:
        """One layer for all nodes: `conv((sources, targets), edge_index)`, chunk by chunk."""
        if x.shape[0] != self.num_nodes:
            raise ValueError(f"x has {x.shape[0]} rows, but the graph has {self.num_nodes} nodes")
        parts = iter(self.chunks)
        first = _apply(conv, x, next(parts))
        out = first.new_empty(self.num_nodes, *first.shape[1:])
        out[self.chunks[0].nodes] = first
        for chunk in parts:
            out[chunk.nodes] = _apply(conv, x, chunk)
        return out


def _apply(conv: Callable[..., Tensor], x: Tensor, chunk: Targets) -> Tensor:
    sources = x[chunk.sources]
    return conv((sources, sources[: chunk.nodes.stop - chunk.nodes.start]), chunk.edge_index)


BUFFERS_PER_EDGE = 6
"""Rows that a layer holds per edge: its message, its state, its node, and copies."""


def infer_layerwise(
    layers: Sequence[Callable[..., Any]],
    x: Float[Tensor, " nodes channels"],
    edge_index: Int[Tensor, " 2 edges"],
    budget_bytes: int,
) -> Tensor:
    """Apply layers to a whole graph, without gradients, with about `budget_bytes` for edges.

    PyG's layers that take `(x_source, x_target)` are computed in chunks of targets; all else, such
    as activations, is applied to all nodes at once. Node features, twice, and the graph itself come
    on top of the budget; so do the plans of two or more such layers, which are made at the first
    and kept for the others: about 40 bytes an edge.

    A node's edges are computed together, because a layer may compare them (attention does): the
    largest hub decides the least budget, and the error that refuses a smaller one names it. To
    fold hubs in pieces, in any budget, fold with `fold_in_budget`.
    """
    edge_bytes = BUFFERS_PER_EDGE * max([x.shape[1], *map(_width, layers)]) * x.element_size()
    _require_budget(edge_index, budget_bytes, edge_bytes)
    graph = GraphChunks.of(edge_index, x.shape[0], budget_bytes // edge_bytes)
    several = sum(isinstance(layer, MessagePassing) for layer in layers) > 1
    with torch.no_grad(), reuse_plans() if several else nullcontext():
        for layer in layers:
            x = graph.layer(layer, x) if isinstance(layer, MessagePassing) else layer(x)
    return x


def _width(layer: object) -> int:
    """The width of the rows that a layer returns, 0 if it has no such attribute."""
    heads = getattr(layer, "heads", 1)
    return max(heads * getattr(layer, "out_channels", 0), getattr(layer, "out_features", 0))


def _require_budget(edge_index: Tensor, budget_bytes: int, edge_bytes: int) -> None:
    degrees = torch.bincount(edge_index[1], minlength=1)
    needed = (int(degrees.max()) + 1) * edge_bytes
    if budget_bytes < needed:
        raise ValueError(
            f"a budget of {budget_bytes:,} bytes is too small for node {int(degrees.argmax())}, "
            f"whose {int(degrees.max()):,} edges are computed together at {edge_bytes:,} bytes "
            f"each; give at least {needed:,}, or fold with `fold_in_budget`, which cuts hubs into "
            "pieces"
        )
