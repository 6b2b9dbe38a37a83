"""A model on a graph that changes: an update computes, layer by layer, the nodes that it reaches.

A layer is taken apart: what a node sends, the fold of what a node receives, and the rest. Folds are
kept as trees: a change costs a path in the tree of each node it reaches, not its degree.
"""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from treefold.aggr import LCMAggregation
from treefold.fold import Groups
from treefold.incremental.checks import Integers, as_sets, checked_edges, rows_like, rows_of_nodes
from treefold.incremental.edge_table import EdgeTable
from treefold.incremental.fold_tree import FoldTree
from treefold.incremental.tree_storage import bytes_of, number_of, placed
from treefold.shapes import Float, Int


class Answers(NamedTuple):
    """The nodes whose outputs have changed, in order, and these outputs."""

    nodes: Int[Tensor, " n"]
    outputs: Float[Tensor, " n channels"]


class DynamicModel:
    """The outputs of a model for every node of a graph, kept up to date as the graph changes.

    `layers` are applied one after the other: PyG layers that aggregate with an `LCMAggregation` of
    `eval_bracketing="carry"` and whose messages depend on the source alone (`SAGEConv`,
    `GraphConv`, `GINConv`, ...), and modules that compute row by row, such as activations. Others
    are a ValueError. The outputs are those of the layers on `x` and `edge_index()`.

    Every update returns the `Answers` that have changed. A change goes no further than the nodes
    whose features it changes. For inference: no gradients; the layers are copied. An update that an
    operator fails in must not be followed by another: make the model again.
    """

    @torch.no_grad()
    def __init__(
        self, layers: Sequence[nn.Module], x: Float[Tensor, " nodes channels"], edge_index: Tensor
    ) -> None:
        edge_index = checked_edges(edge_index, x.shape[0], x.device)
        source, target = edge_index
        groups = Groups.from_index(target, x.shape[0])
        self._x = x.detach().clone()
        first, parts = _split(copy.deepcopy(list(layers)))
        self._first = first
        rows = _applied(first, self._x, "the first layers")
        self._layers: list[_Layer] = []
        for conv, rest in parts:
            self._layers.append(_Layer(conv, rest, rows, edge_index, groups))
            rows = self._layers[-1].outputs
        self._sources = source.clone()  # by the number in an edge's handle
        self._edges = EdgeTable(edge_index, torch.arange(source.numel(), device=x.device))

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self._x.shape[0]

    @property
    def num_bytes(self) -> int:
        """The memory of features, trees and indices."""
        own = bytes_of([self._x, self._sources]) + self._edges.num_bytes
        return own + sum(layer.num_bytes for layer in self._layers)

    @property
    def x(self) -> Float[Tensor, " nodes channels"]:
        """The features of all nodes."""
        return self._x.clone()

    def edge_index(self) -> Int[Tensor, " 2 edges"]:
        """All edges, target by target, in the order in which the trees hold them."""
        tree = self._layers[0].tree
        sources = self._sources[number_of(tree.handles())]
        return torch.stack([sources, torch.repeat_interleave(tree.sizes)])

    def value(self, nodes: Integers | None = None) -> Float[Tensor, " nodes out"]:
        """The outputs of all nodes, or of those asked for."""
        outputs = self._layers[-1].outputs
        if nodes is None:
            return outputs.clone()
        return outputs.index_select(0, as_sets(nodes, self.num_nodes, outputs.device))

    @torch.no_grad()
    def add_edges(self, edge_index: Tensor) -> Answers:
        """Add edges: `[2, n]`, columns (source, target)."""
        edge_index = checked_edges(edge_index, self.num_nodes, self._x.device)
        source, target = edge_index.unbind()
        handles: list[Tensor] = []

        def change(layer: _Layer) -> Tensor:
            handles.append(layer.tree.insert(layer.sent[source], target))
            return target

        answers = self._update(source[:0], self._x[:0], change)
        self._sources = placed(self._sources, number_of(handles[0]), source)
        self._edges.add(edge_index, handles[0])
        return answers

    @torch.no_grad()
    def remove_edges(self, edge_index: Tensor) -> Answers:
        """Remove edges, one per column; a ValueError, and nothing changed, if one is missing."""
        edge_index = checked_edges(edge_index, self.num_nodes, self._x.device)
        found = self._edges.find(edge_index)
        self._edges.remove(found)

        def change(layer: _Layer) -> Tensor:
            layer.tree.remove(found.handles)
            return edge_index[1]

        return self._update(edge_index[0, :0], self._x[:0], change)

    @torch.no_grad()
    def replace_nodes(self, nodes: Integers, x: Float[Tensor, " n channels"]) -> Answers:
        """Give nodes other features."""
        nodes, x = rows_of_nodes(nodes, x, self._x)
        self._x[nodes] = x
        return self._update(nodes, x, lambda _: nodes[:0])

    @torch.no_grad()
    def add_nodes(self, x: Float[Tensor, " n channels"]) -> Answers:
        """New nodes, without edges; their answers."""
        x, before = cast(Tensor, rows_like(self._x, x)), self.num_nodes
        new = torch.arange(before, before + x.shape[0], device=self._x.device)
        rows = _applied(self._first, x, "the first layers")
        for layer in self._layers:
            rows = layer.extended(rows)
        self._x = torch.cat([self._x, x])
        return Answers(new, rows)

    def _update(
        self, changed: Tensor, rows: Tensor, change: Callable[["_Layer"], Tensor]
    ) -> Answers:
        """Apply a change of the graph, and new features of some nodes, to all layers."""
        if changed.numel():
            for module in self._first:
                rows = module(rows)
        else:
            rows = self._layers[0].x[:0]
        for layer in self._layers:
            changed, rows = layer.update(changed, rows, change, self._edges)
        return Answers(changed, rows)


class _Layer:
    """A layer's inputs, what nodes send, the trees of what they receive, and its outputs."""

    def __init__(
        self,
        conv: MessagePassing,
        rest: list[nn.Module],
        x: Tensor,
        edge_index: Tensor,
        groups: Groups,
    ) -> None:
        aggregation = conv.aggr_module
        if getattr(aggregation, "eval_bracketing", None) != "carry":
            raise ValueError(
                f"{conv} aggregates with {aggregation}; expected an LCMAggregation with "
                "eval_bracketing='carry', whose trees can be kept up to date"
            )
        self.encode = cast(LCMAggregation, aggregation).projected
        expected = conv(x, edge_index)
        self.conv, self.rest, self.x = conv, rest, x
        self.given = conv.aggr_module = _Given()
        self.sent = self._messages(x)
        self.tree = FoldTree(aggregation.operator, self.sent[edge_index[0]], groups)
        found = self._finished(x, cast(Tensor, self.tree.value()))
        if found.shape != expected.shape or not _are_close(found, expected):
            raise ValueError(
                f"{conv} gives other outputs in parts than at once; expected a layer whose "
                "messages depend on the source alone, without self-loops and normalization"
            )
        self.outputs = _applied(rest, found, f"the layers after {conv}")

    @property
    def num_bytes(self) -> int:
        """The memory of features and trees."""
        return bytes_of([self.x, self.sent, self.outputs]) + self.tree.num_bytes

    def update(
        self, changed: Tensor, x: Tensor, change: Callable[["_Layer"], Tensor], edges: EdgeTable
    ) -> tuple[Tensor, Tensor]:
        """New features of some nodes, and a change of the graph: the outputs that change."""
        reached = [changed]
        if changed.numel():
            self.x[changed] = x
            self.sent[changed] = sent = self._messages(x)
        reached.append(change(self))
        if changed.numel():
            which, handles = edges.leaving(changed)
            self.tree.replace(handles, sent[which])
            reached.append(self.tree.sets_of(handles))
        nodes = torch.cat(reached).unique()
        outputs = self._outputs(nodes)
        differs = (outputs != self.outputs[nodes]).flatten(1).any(1)
        nodes, outputs = nodes[differs], outputs[differs]
        self.outputs[nodes] = outputs
        return nodes, outputs

    def extended(self, x: Tensor) -> Tensor:
        """The outputs of new nodes without edges."""
        self.x, self.sent = torch.cat([self.x, x]), torch.cat([self.sent, self._messages(x)])
        outputs = self._outputs(self.tree.add_sets(x.shape[0]))
        self.outputs = torch.cat([self.outputs, outputs])
        return outputs

    def _outputs(self, nodes: Tensor) -> Tensor:
        rows = self._finished(self.x[nodes], cast(Tensor, self.tree.value(nodes)))
        for module in self.rest:
            rows = module(rows)
        return rows

    def _messages(self, x: Tensor) -> Tensor:
        """Messages of nodes: elements of the operator."""
        self.given.states = None
        loops = torch.arange(x.shape[0], device=x.device).expand(2, -1)
        self.conv(x, loops)
        return cast(Tensor, self.encode(cast(Tensor, self.given.messages)))

    def _finished(self, x: Tensor, states: Tensor) -> Tensor:
        """The layer's outputs for nodes that have received these states."""
        self.given.states = states
        none = torch.zeros(2, 0, dtype=torch.int64, device=x.device)
        return cast(Tensor, self.conv(x, none))


class _Given(nn.Module):
    """In place of an aggregation: keeps the messages, and returns the states it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.states: Tensor | None = None
        self.messages: Tensor | None = None

    def forward(self, x: Tensor, *_: object, dim_size: int, **__: object) -> Tensor:
        """The given states; nothing where there are none."""
        self.messages = x
        return x.new_zeros(dim_size, *x.shape[1:]) if self.states is None else self.states


def _split(
    layers: list[nn.Module],
) -> tuple[list[nn.Module], list[tuple[MessagePassing, list[nn.Module]]]]:
    """The modules before the first PyG layer, and each of these with the modules after it."""
    first: list[nn.Module] = []
    parts: list[tuple[MessagePassing, list[nn.Module]]] = []
    for layer in layers:
        layer.eval()
        if isinstance(layer, MessagePassing):
            parts.append((layer, []))
        else:
            (parts[-1][1] if parts else first).append(layer)
    if not parts:
        raise ValueError(f"{layers} have no PyG layer among them; expected at least one")
    return first, parts


def _applied(modules: list[nn.Module], rows: Tensor, what: str) -> Tensor:
    """Apply modules to all rows; a ValueError if they do not work row by row."""
    whole, few = rows, rows[:3]
    for module in modules:
        whole, few = module(whole), module(few)
    if not _are_close(whole[:3], few):
        raise ValueError(f"{what}, {modules}, compare nodes; expected modules that work by row")
    return whole.clone() if whole is rows else whole


def _are_close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)
