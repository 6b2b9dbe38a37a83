"""PNA's real-world architecture: one answer for each graph, with or without edge features.

nodes -> rows -> layers, each with its own weights -> sum (or mean) over nodes -> MLP
edges -> rows, which all layers see
"""

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from treefold.aggr import aggregator
from treefold.fold import Groups
from treefold.lab.networks.graph_layers import NormalizedTowers, PlainLayer, Surroundings
from treefold.lab.networks.graph_layout import Neighbours, check_edges, graphs_of
from treefold.lab.networks.input_layers import InputLayer, input_layer
from treefold.lab.networks.tower_conv import TowerConv, with_mean_log_degree
from treefold.lab.tasks import Categories, Numbers
from treefold.shapes import Float, Shaped


class GraphNetwork(nn.Module):
    """Answers for batches of graphs; a graph's answer does not depend on the rest of its batch
    (batch norm in training excepted).

    `layers` map (states, `Surroundings`) to new states. `readout` is the name of an aggregator.
    Groups and fold plans are made once for all layers.
    """

    def __init__(
        self,
        nodes: InputLayer,
        edges: InputLayer | None,
        layers: list[nn.Module],
        channels: int,
        num_outputs: int,
        readout: str = "sum",
    ) -> None:
        super().__init__()
        self.nodes, self.edges = nodes, edges
        self.layers = nn.ModuleList(layers)
        self.readout = aggregator(readout, channels)
        self.head = readout_mlp(int(self.readout.out_channels), num_outputs)

    def forward(
        self,
        x: Shaped[Tensor, " n columns"],
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Float[Tensor, " graphs outputs"]:
        """The answers for all graphs, in the order they came in."""
        if batch is None:
            batch = torch.zeros(len(x), dtype=torch.int64, device=x.device)
            batch_size = 1 if batch_size is None else batch_size
        graphs = graphs_of(batch, batch_size, len(x))
        check_edges(edge_index, batch, len(x))
        states = self.states(x, self.surroundings(edge_index, edge_attr, graphs))
        answers: Tensor = self.head(self.readout.aggregate(states, graphs))
        return answers

    def states(
        self, x: Shaped[Tensor, " n columns"], around: Surroundings
    ) -> Float[Tensor, " n channels"]:
        """The last state of each node."""
        states: Tensor = self.nodes(x)
        for layer in self.layers:
            states = layer(states, around)
        return states

    def surroundings(
        self, edge_index: Tensor, edge_attr: Tensor | None, graphs: Groups
    ) -> Surroundings:
        """Compute the inputs that all layers of a batch share."""
        by_receiver = Groups.from_index(edge_index[1], graphs.num_rows)
        source = edge_index[0].index_select(0, by_receiver.order)
        dtype = next(self.parameters()).dtype
        return Surroundings(
            Neighbours(source, Groups.from_sizes(by_receiver.sizes)),
            graphs.sizes.to(dtype).rsqrt()[graphs.index].unsqueeze(1),
            self._edge_rows(edge_attr, by_receiver),
        )

    def _edge_rows(self, edge_attr: Tensor | None, by_receiver: Groups) -> Any:
        if self.edges is None:
            return None
        if edge_attr is None or len(edge_attr) != by_receiver.num_rows:
            given = "none" if edge_attr is None else f"those of {len(edge_attr)} edges"
            raise ValueError(
                f"edge features: {given}; expected those of {by_receiver.num_rows} edges, as this "
                "network has an input for them"
            )
        return partial(self.edges.times, edge_attr.index_select(0, by_receiver.order))


def readout_mlp(channels: int, num_outputs: int) -> nn.Sequential:
    """Linear maps that halve the width twice, ReLU between them."""
    widths = [channels, channels // 2, channels // 4, num_outputs]
    layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def tower_network(
    name: str,
    nodes: Categories | Numbers,
    num_outputs: int,
    *,
    edges: Categories | Numbers | None = None,
    channels: int = 75,
    out_channels: int = 70,
    edge_channels: int = 50,
    towers: int = 5,
    divide: bool = True,
    num_layers: int = 4,
    dropout: float = 0.0,
    mean_log_degree: float | None = None,
    **options: Any,
) -> GraphNetwork:
    """The network for ZINC and superpixels around the aggregator `name`.

    The last layer goes from `channels` to `out_channels`. `divide`: whether towers share the
    channels (PNA) or each has all (the paper, for learned aggregators). `mean_log_degree` is δ of
    PNA's scalers; `options` are the aggregator's.
    """
    if num_layers < 1:
        raise ValueError(f"{num_layers} layers; expected 1 or more")
    make = partial(aggregator, name, **with_mean_log_degree(name, mean_log_degree, options))
    width = 0 if edges is None else edge_channels
    layers: list[nn.Module] = [
        NormalizedTowers(TowerConv(channels, out, make, towers, divide, width), dropout)
        for out in [*[channels] * (num_layers - 1), out_channels]
    ]
    of_edges = None if edges is None else input_layer(edges, edge_channels)
    return GraphNetwork(input_layer(nodes, channels), of_edges, layers, out_channels, num_outputs)


def plain_network(
    name: str,
    nodes: Categories | Numbers,
    num_outputs: int,
    *,
    channels: int = 80,
    num_layers: int = 4,
    dropout: float = 0.3,
    readout: str = "mean",
    mean_log_degree: float | None = None,
    **options: Any,
) -> GraphNetwork:
    """The network for MolHIV around the aggregator `name`: no messages, towers or edge features."""
    options = with_mean_log_degree(name, mean_log_degree, options)
    layers: list[nn.Module] = [
        PlainLayer(aggregator(name, channels, **options), channels, dropout)
        for _ in range(num_layers)
    ]
    of_nodes = input_layer(nodes, channels)
    for parameter in of_nodes.parameters():  # as OGB's encoder begins
        if parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter)
    return GraphNetwork(of_nodes, None, layers, channels, num_outputs, readout)
