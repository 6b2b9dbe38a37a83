"""Aggregation on a dynamic graph: edges come and go, nodes change, aggregates are updated."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from treefold.aggr import LCMAggregation, MonoidAggregation
from treefold.algebra import Monoid, State
from treefold.fold import Groups
from treefold.incremental.checks import Integers, checked_edges, rows_like, rows_of_nodes
from treefold.incremental.edge_table import EdgeTable
from treefold.incremental.fold_tree import FoldTree
from treefold.incremental.saving import load_set, save_set
from treefold.incremental.stability import BracketingStability
from treefold.incremental.tree_storage import bytes_of, number_of, placed
from treefold.shapes import Int, Shaped

TREES = "carry"
"""The bracketing that can be kept up to date."""

# `_parts` refuses modules other than these aggregations: they have no operator.
Aggregating: TypeAlias = LCMAggregation | MonoidAggregation | Monoid | nn.Module


class DynamicAggregation:
    """The aggregate of each node's neighbours, kept up to date: O(log degree) per edge.

    Node `t` aggregates `x[s]` over all edges `(s, t)`, PyG's source-to-target flow; two nodes may
    share several edges. `aggregation` is an `LCMAggregation` (its `project` included), a
    `MonoidAggregation`, or a bare monoid on the rows of `x`; its random orders are for training
    and play no part. `value()` is what an `LCMAggregation` with `eval_bracketing="carry"` gives for
    the edges in the order of `edge_index()`. For inference: no gradients.
    """

    def __init__(
        self,
        aggregation: Aggregating,
        x: Shaped[Tensor, " nodes *feature"],
        edge_index: Tensor,
    ) -> None:
        self._begin(aggregation, x)
        edge_index = checked_edges(edge_index, self.num_nodes, self._x.device)
        source, target = edge_index
        groups = Groups.from_index(target, self.num_nodes)
        self.tree = FoldTree(self._op, self._messages(source), groups)
        self._sources = source.clone()  # by the number in an edge's handle
        self._edges = EdgeTable(edge_index, torch.arange(source.numel(), device=x.device))

    def _begin(self, aggregation: Aggregating, x: Tensor) -> None:
        if getattr(aggregation, "eval_bracketing", TREES) != TREES:
            warnings.warn(
                "this aggregation evaluates over other trees than a dynamic graph has: its "
                "own answers are not `value()`; make it with eval_bracketing='carry'",
                stacklevel=3,
            )
        self._x = x.detach().clone()
        self._op, self._encode, self._decode = _parts(aggregation)
        self._made_by = _made_by(aggregation)

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self._x.shape[0]

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        return int(self.tree.sizes.sum())

    @property
    def num_bytes(self) -> int:
        """The memory of node features, trees and indices."""
        own = bytes_of([self._x, self._sources])
        return own + self.tree.num_bytes + self._edges.num_bytes

    @property
    def x(self) -> Shaped[Tensor, " nodes *feature"]:
        """The features of all nodes."""
        return self._x.clone()

    def edge_index(self) -> Int[Tensor, " 2 edges"]:
        """All edges, target by target, in the order in which the trees hold them."""
        sources = self._sources[number_of(self.tree.handles())]
        return torch.stack([sources, torch.repeat_interleave(self.tree.sizes)])

    def add_edges(self, edge_index: Tensor) -> None:
        """Add edges: `[2, n]`, columns (source, target)."""
        edge_index = checked_edges(edge_index, self.num_nodes, self._x.device)
        source, target = edge_index
        handles = self.tree.insert(self._messages(source), target)
        self._sources = placed(self._sources, number_of(handles), source)
        self._edges.add(edge_index, handles)

    def remove_edges(self, edge_index: Tensor) -> None:
        """Remove edges, one per column; a ValueError, and nothing changed, if one is missing."""
        found = self._edges.find(checked_edges(edge_index, self.num_nodes, self._x.device))
        self.tree.remove(found.handles)
        self._edges.remove(found)

    def replace_nodes(self, nodes: Integers, x: Shaped[Tensor, " n *feature"]) -> None:
        """Give nodes other features, which changes what they send along all of their edges."""
        nodes, x = rows_of_nodes(nodes, x, self._x)
        which, handles = self._edges.leaving(nodes)
        with torch.no_grad():
            self.tree.replace(handles, self._encode(x[which]))
        self._x[nodes] = x

    def add_nodes(self, x: Shaped[Tensor, " n *feature"]) -> Int[Tensor, " n"]:
        """New nodes, without edges; returns their numbers."""
        x = cast(Tensor, rows_like(self._x, x))
        self._x = torch.cat([self._x, x])
        return self.tree.add_sets(x.shape[0])

    @torch.no_grad()
    def value(self, nodes: Integers | None = None) -> Tensor:
        """The aggregate of each node, or of those asked for: `[nodes, *feature]`."""
        return cast(Tensor, self._decode(self.tree.value(nodes)))

    def stability(
        self,
        num_bracketings: int = 8,
        generator: torch.Generator | None = None,
        decode: Callable[..., State] | None = None,
    ) -> BracketingStability:
        """Measure how far other merge orders would be from `value()`, node by node."""
        outputs = decode or self._decode
        return self.tree.stability(num_bracketings, generator, outputs)

    def save(self, folder: Path | str) -> None:
        """Write everything but the aggregation: whole or not at all, with checksums."""
        tensors, state = self.tree.packed()
        tensors |= {"x": self._x, "sources": self._sources}
        save_set(folder, "dynamic-aggregation", self._made_by, tensors, state)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        aggregation: Aggregating,
        device: torch.device | str | None = None,
    ) -> "DynamicAggregation":
        """Load what was saved; `aggregation` must be the same as then.

        Its tensors are on `device`, or where the operator's identity is.
        """
        graph = cls.__new__(cls)
        saved = load_set(folder, "dynamic-aggregation", _made_by(aggregation), device)
        graph._begin(aggregation, saved.tensors["x"])
        graph.tree = FoldTree.unpacked(graph._op, saved)
        graph._sources = saved.tensors["sources"]
        graph._edges = EdgeTable(graph.edge_index(), graph.tree.handles())
        return graph

    @torch.no_grad()
    def _messages(self, sources: Tensor) -> State:
        return cast(State, self._encode(self._x[sources]))


def _parts(
    aggregation: Aggregating,
) -> tuple[Monoid, Callable[..., Any], Callable[..., State]]:
    """The operator, what turns rows into elements, and what turns elements into outputs."""

    def unchanged(state: State) -> State:
        return state

    if isinstance(aggregation, LCMAggregation):
        return aggregation.operator, cast(Callable[..., State], aggregation.projected), unchanged
    if isinstance(aggregation, MonoidAggregation):
        monoid = aggregation.monoid
        return monoid, monoid.encode, monoid.decode
    if isinstance(aggregation, Monoid):
        return aggregation, unchanged, unchanged
    raise ValueError(
        f"got a {type(aggregation).__name__}; expected an LCMAggregation, a MonoidAggregation or a "
        "monoid: others have no operator to update with"
    )


def _made_by(aggregation: Aggregating) -> list[object]:
    """All that the states of a graph depend on, apart from its nodes and edges."""
    return [_parts(aggregation)[0], getattr(aggregation, "project", None)]
