"""The one small GNN of a comparison: only the aggregator of its neighbourhoods is exchanged."""

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import aggr as pyg

from treefold.aggr import RaggedAggregation, aggregator
from treefold.fold import Groups, Rows, TableRows
from treefold.lab.networks.input_layers import EmbeddedCategories
from treefold.lab.networks.tower_conv import with_mean_log_degree
from treefold.lab.tasks import Categories, Dataset, GraphBatch, Level, Numbers, rows_of
from treefold.shapes import Float


class Layer(nn.Module):
    """Neighbours send, the aggregator folds, the node adds a map of itself and what came."""

    def __init__(self, channels: int, folded: RaggedAggregation) -> None:
        super().__init__()
        self.send = nn.Linear(channels, channels)
        self.aggregator = folded
        self.update = nn.Linear(channels + cast(int, folded.out_channels), channels)
        self.norm = nn.LayerNorm(channels)

    def messages(
        self,
        x: Float[Tensor, " nodes channels"],
        edges: Float[Tensor, " edges channels"] | None,
        graphs: GraphBatch,
    ) -> Rows:
        """A row per edge; without edge features a table of nodes: each is sent once."""
        sent, senders = self.send(x), graphs.edge_index[0]
        if edges is None:
            return TableRows(F.relu(sent), senders)
        return F.relu(sent.index_select(0, senders) + edges)

    def forward(
        self, x: Float[Tensor, " nodes channels"], messages: Rows, neighbours: Groups
    ) -> Float[Tensor, " nodes channels"]:
        """The new states of all nodes."""
        arrived = self.aggregator.aggregate(messages, neighbours)
        states: Tensor = self.norm(x + F.relu(self.update(torch.cat([x, arrived], 1))))
        return states


class SmallGNN(nn.Module):
    """Encoder, a few layers, for graphs the mean and maximum over nodes; then two linear maps."""

    def __init__(
        self,
        node_encoder: nn.Module,
        edge_encoder: nn.Module | None,
        layers: list[Layer],
        num_outputs: int,
        level: Level,
    ) -> None:
        super().__init__()
        channels = layers[0].send.in_features
        self.node_encoder, self.edge_encoder = node_encoder, edge_encoder
        self.layers = nn.ModuleList(layers)
        self.readout = pyg.MultiAggregation(["mean", "max"]) if level == "graph" else None
        width = 2 * channels if level == "graph" else channels
        self.answer = nn.Sequential(
            nn.Linear(width, channels), nn.ReLU(), nn.Linear(channels, num_outputs)
        )

    def forward(self, graphs: GraphBatch) -> Float[Tensor, " answers outputs"]:
        """Answers for all graphs, or all nodes."""
        for _, _, states in self._passes(graphs):
            x = states
        if self.readout is not None:
            x = self.readout(x, graphs.groups.index, dim_size=len(graphs))
        answers: Tensor = self.answer(x)
        return answers

    def folded(self, graphs: GraphBatch) -> Iterator[tuple[RaggedAggregation, Rows, Groups]]:
        """Each layer's aggregator with the rows that it meets on these graphs."""
        for layer, rows, _ in self._passes(graphs):
            yield layer.aggregator, rows, graphs.neighbours

    def _passes(self, graphs: GraphBatch) -> Iterator[tuple[Layer, Rows, Tensor]]:
        x = self.node_encoder(graphs.x)
        edges = None if self.edge_encoder is None else self.edge_encoder(graphs.edge_attr)
        for module in self.layers:
            layer = cast(Layer, module)
            messages = layer.messages(x, edges, graphs)
            x = layer(x, messages, graphs.neighbours)
            yield layer, messages, x


def small_network(
    name: str, dataset: Dataset, channels: int, num_layers: int, **options: Any
) -> SmallGNN:
    """The network with the aggregator of that name, scaled to the training data."""
    train = dataset.train
    nodes, edges = (rows_of(s, train.graphs) for s in (train.store.sizes, train.store.num_edges))
    degrees = train.store.in_degrees[nodes].double()
    options = with_mean_log_degree(name, max(float(torch.log1p(degrees).mean()), 1e-6), options)
    edge_encoder = None
    if dataset.edge_input is not None:
        edge_encoder = _encoder(dataset.edge_input, train.store.edge_attr[edges], channels)
    return SmallGNN(
        _encoder(dataset.node_input, train.store.x[nodes], channels),
        edge_encoder,
        [Layer(channels, aggregator(name, channels, **options)) for _ in range(num_layers)],
        dataset.problem.num_outputs,
        dataset.problem.level,
    )


class NumberEncoder(nn.Module):
    """A linear map of columns that are brought to a common scale first.

    Columns between 0 and 1, such as the parts of a one-hot code, are left as they are; others get
    the mean 0 and the deviation 1 that they have in the training data.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, training_rows: Float[Tensor, " n columns"], channels: int) -> None:
        super().__init__()
        rows = training_rows.double()
        shift, scale = rows.mean(0), rows.std(0, correction=0)
        bounded = (rows.amin(0) >= 0) & (rows.amax(0) <= 1)
        self.register_buffer("shift", shift.masked_fill(bounded, 0).float())
        self.register_buffer("scale", scale.masked_fill(bounded | (scale == 0), 1).float())
        self.linear = nn.Linear(training_rows.shape[1], channels)

    def forward(self, values: Float[Tensor, " n columns"]) -> Float[Tensor, " n channels"]:
        """A vector per row."""
        vectors: Tensor = self.linear((values - self.shift) / self.scale)
        return vectors


def _encoder(inputs: Categories | Numbers, training_rows: Tensor, channels: int) -> nn.Module:
    """A module that turns rows of this kind into vectors."""
    if isinstance(inputs, Categories):
        return EmbeddedCategories(inputs, channels)
    return NumberEncoder(training_rows, channels)
