"""PNA's multi-task architecture: node and graph targets from one recurrent message-passing network.

    first convolution -> GRU -> (next convolution -> GRU) x (N/2 - 1) -> node head
                                                                      -> readout -> graph head

One second convolution and one GRU serve all layers. The GRU takes a node's old state as its input
and the convolution's output as its hidden state, as in PNA's released code.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.aggr import AGGREGATORS, aggregator
from treefold.lab.networks.convolutions import CONVOLUTIONS
from treefold.lab.networks.dense import mlp
from treefold.lab.networks.graph_layout import GraphLayout, inverse
from treefold.lab.networks.readouts import AggregatorReadout, SizedSet2Set
from treefold.lab.networks.tower_conv import TowerConv, with_mean_log_degree
from treefold.names import by_name
from treefold.shapes import Float

SET2SET = "set2set"
COPY_BIAS = -3.0
"""Bias of an update gate that takes 95 % of a node's new state from its old one."""


class MultiTaskNetwork(nn.Module):
    """Node targets and graph targets for batches of graphs, whatever sizes are in a batch.

    A graph of N nodes gets max(1, ⌊N/2⌋) layers, and leaves the computation after them; what comes
    out for it does not depend on the rest of the batch (batch norm in training excepted). Edges are
    taken as they are: self-loops and repeated edges count, nodes without edges get what the
    aggregator gives for an empty group.

    Answers pass a leaky ReLU, as in PNA's code, unless `linear_output`. A target whose mean is 0,
    such as the Laplacian, easily ends up on its flat side, and then nothing is learned of it. With
    PNA's initial weights a node's state is forgotten after some four layers, and it takes thousands
    of steps to learn otherwise; `gru_copy_init` begins with a GRU that keeps it. And each layer of
    the head for nodes begins with weights that are too small by a factor of its inputs: until they
    have grown, only the head for graphs, which has batch norm, trains the states.
    `node_head_he_init` begins with He's weights there.

    `first` and `next_` map (states, `Neighbours`) to new states; `readout` maps (states,
    `GraphLayout`) to `out_channels` numbers a graph.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        first: nn.Module,
        next_: nn.Module,
        readout: nn.Module,
        node_targets: int = 3,
        graph_targets: int = 3,
        linear_output: bool = False,
        gru_copy_init: bool = False,
        node_head_he_init: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels, self.channels = in_channels, channels
        self.first, self.next = first, next_
        self.gru = nn.GRUCell(channels, channels)
        if gru_copy_init:
            copy_init_(self.gru)
        self.readout = readout
        last = nn.Identity if linear_output else nn.LeakyReLU
        self.node_head = mlp([channels] * 3 + [node_targets], nn.LeakyReLU, last)
        if node_head_he_init:
            he_init_(self.node_head)
        self.graph_head = mlp(
            [int(readout.out_channels), channels, channels, graph_targets],  # type: ignore[arg-type]
            nn.ReLU,
            last,
            batch_norm=True,
        )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> tuple[Float[Tensor, " n node_targets"], Float[Tensor, " graphs graph_targets"]]:
        """Targets of all nodes and of all graphs, in the order they came in."""
        if x.dim() != 2 or x.shape[1] != self.in_channels:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected [nodes, {self.in_channels}]")
        layout = GraphLayout.of(len(x), edge_index, batch, batch_size)
        states = self.states(x[layout.nodes], layout)
        node_targets = self.node_head(states)[inverse(layout.nodes)]
        graph_targets = self.graph_head(self.readout(states, layout))[inverse(layout.graphs)]
        return node_targets, graph_targets

    def states(
        self, x: Float[Tensor, " n inputs"], layout: GraphLayout
    ) -> Float[Tensor, " n channels"]:
        """The last state of each node, in the order of the layout."""
        finished, done = [x.new_zeros(0, self.channels)], 0
        for size, neighbours, stay in layout.leaving():
            for layer in range(done, num_layers(size)):
                convolution = self.first if layer == 0 else self.next
                old = F.pad(x, (0, self.channels - x.shape[1]))
                x = self.gru(old, convolution(x, neighbours))
            done = num_layers(size)
            finished.append(x[stay:])
            x = x[:stay]
        return torch.cat(finished[::-1])


def num_layers(size: int) -> int:
    """The number of layers for a graph of that many nodes."""
    return max(1, size // 2)


@torch.no_grad()
def copy_init_(gru: nn.GRUCell) -> None:
    """Let a GRU begin with its input as the new value, and with gates that prefer it.

    Biases begin at zero: others drive all states to one fixed point of tanh, where it is flat.
    """
    nn.init.eye_(gru.weight_ih.chunk(3)[2])
    nn.init.zeros_(gru.bias_ih)
    nn.init.zeros_(gru.bias_hh)
    gru.bias_ih.chunk(3)[1].fill_(COPY_BIAS)


@torch.no_grad()
def he_init_(head: nn.Module) -> None:
    """Let answers begin as large as the states they come from, with He's initial weights."""
    for module in head.modules():
        if isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")


def multi_task_network(
    name: str,
    *,
    channels: int = 16,
    towers: int = 4,
    divide: bool = True,
    readout: str = SET2SET,
    linear_output: bool = False,
    gru_copy_init: bool = False,
    node_head_he_init: bool = False,
    in_channels: int = 2,
    mean_log_degree: float | None = None,
    **options: Any,
) -> MultiTaskNetwork:
    """The benchmark's network around `name`: an aggregator in PNA's towers, or gcn, gat or gin.

    - `divide`: whether towers share the channels (PNA) or each has all (the paper, for learned
      aggregators). Towers of the first convolution always get all of the few input channels.
    - `readout`: `set2set`, or the name of an aggregator over the nodes of a graph.
    - `linear_output`: without PNA's leaky ReLU after the last layer of both heads.
    - `gru_copy_init`: the GRU begins as nearly a copy of a node's old state.
    - `node_head_he_init`: the head for nodes begins with answers as large as the states.
    - `mean_log_degree`: δ of PNA's scalers, from the training graphs; other aggregators ignore it.
    - `options`: of the aggregator, such as `associativity`.
    """
    known = {**CONVOLUTIONS, **AGGREGATORS}
    by_name(known, name, "convolution or aggregator")
    if channels < in_channels:
        raise ValueError(f"{channels} channels; expected at least as many as inputs, {in_channels}")
    if name in CONVOLUTIONS:
        if options:
            raise ValueError(f"{name} takes no options; got {', '.join(options)}")
        first = CONVOLUTIONS[name](in_channels, channels)
        next_ = CONVOLUTIONS[name](channels, channels)
    else:
        make = partial(aggregator, name, **with_mean_log_degree(name, mean_log_degree, options))
        first = TowerConv(in_channels, channels, make, towers, divide=False)
        next_ = TowerConv(channels, channels, make, towers, divide)
    pool = (
        SizedSet2Set(channels)
        if readout == SET2SET
        else AggregatorReadout(aggregator(readout, channels))
    )
    return MultiTaskNetwork(
        in_channels,
        channels,
        first,
        next_,
        pool,
        linear_output=linear_output,
        gru_copy_init=gru_copy_init,
        node_head_he_init=node_head_he_init,
    )
