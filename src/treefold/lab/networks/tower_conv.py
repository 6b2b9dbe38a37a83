"""PNA's convolution: towers that each make messages, aggregate them and update, then a mixing.

The aggregator is a parameter. With sums or maxima this is the benchmark's MPNN, with PNA's twelve
scaled aggregates its PNA, and with a learned one what the paper tests.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from treefold.aggr import RaggedAggregation
from treefold.lab.networks.dense import dense, pna_init_
from treefold.lab.networks.graph_layout import Neighbours
from treefold.shapes import Float

EdgeRows = Callable[[Tensor], Tensor]
"""The rows of all edges, sorted by receiver, times a matrix: they need not be made themselves."""


WIDE_TOWER = 8
"""From so many outputs on, a tower has a product of its own: half the time at 12 to 20."""


class TowerLinear(nn.Module):
    """A linear map for each tower, applied side by side."""

    def __init__(self, towers: int, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(towers, in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(towers, out_channels))
        pna_init_(self.weight, self.bias)

    def forward(self, x: Float[Tensor, " n towers inputs"]) -> Float[Tensor, " n towers outputs"]:
        """Each tower's rows through its own map."""
        return to_each(x, self.weight) + self.bias

    def extra_repr(self) -> str:
        """Show the sizes when the module is printed."""
        towers, in_channels, out_channels = self.weight.shape
        return f"{in_channels}, {out_channels}, towers={towers}"


class TowerConv(nn.Module):
    """Messages from pairs of nodes, aggregated at the receiver and joined to its own state.

    - `make_aggregator(channels)` makes what aggregates. One without parameters serves all towers;
      of learned ones, each tower has its own.
    - `divide`: give each tower its share of the input's channels. If not, each gets all of them,
      and its messages are as wide as the input.
    - `edge_channels`: how wide the rows of edges are, which every tower gets in full; 0 if edges
      have no features.

    A message is a linear map of (receiver, source, edge). PNA's released code for the multi-task
    benchmark hands max and min the pair the other way round, mean and std as here; here all
    aggregators see the same messages. For a single aggregator that is only a name for the weights;
    for PNA it is a departure.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        make_aggregator: Callable[[int], RaggedAggregation],
        towers: int = 1,
        divide: bool = True,
        edge_channels: int = 0,
    ) -> None:
        super().__init__()
        for channels in (in_channels if divide else towers, out_channels):
            if towers < 1 or channels % towers:
                raise ValueError(f"{towers} towers cannot split {channels} channels; use a divisor")
        width = in_channels // towers if divide else in_channels
        self.towers, self.divide, self.edge_channels = towers, divide, edge_channels
        self.message = TowerLinear(towers, 2 * width + edge_channels, width)
        aggregator = make_aggregator(width)
        learned = any(True for _ in aggregator.parameters())
        others = [make_aggregator(width) for _ in range(towers - 1)] if learned else []
        self.aggregators = nn.ModuleList([aggregator, *others])
        self.update = TowerLinear(towers, width + aggregator.out_channels, out_channels // towers)
        self.out_channels = out_channels
        self.mix = dense(out_channels, out_channels, nn.LeakyReLU)

    def forward(
        self, x: Float[Tensor, " n inputs"], neighbours: Neighbours, edges: EdgeRows | None = None
    ) -> Float[Tensor, " n outputs"]:
        """The new states of all nodes."""
        mixed: Tensor = self.mix(self.updated(x, neighbours, edges))
        return mixed

    def updated(
        self, x: Float[Tensor, " n inputs"], neighbours: Neighbours, edges: EdgeRows | None = None
    ) -> Float[Tensor, " n outputs"]:
        """Update all nodes in each tower, side by side, not mixed yet."""
        aggregated = self._aggregate(self.messages(x, neighbours, edges), neighbours)
        own = self._shares(x) if self.divide else x.unsqueeze(1).expand(-1, self.towers, -1)
        updated: Tensor = self.update(torch.cat([own, aggregated], -1))
        return updated.flatten(1)

    def _shares(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), self.towers, x.shape[1] // self.towers)

    def messages(
        self, x: Float[Tensor, " n inputs"], neighbours: Neighbours, edges: EdgeRows | None = None
    ) -> Float[Tensor, " edges towers channels"]:
        """Compute the messages that each tower aggregates."""
        if (edges is None) != (self.edge_channels == 0):
            given = "none" if edges is None else "some"
            raise ValueError(f"edge_channels is {self.edge_channels}, but rows of edges: {given}")
        # W (receiver, source) = W_1 receiver + W_2 source: multiply once per node, not per edge.
        width = self.message.weight.shape[2]
        of_receiver, of_source, of_edge = self.message.weight.split(
            [width, width, self.edge_channels], 1
        )
        if self.divide:
            at_receiver, at_source = (to_each(self._shares(x), w) for w in (of_receiver, of_source))
        else:
            at_receiver, at_source = (to_all(x, w) for w in (of_receiver, of_source))
        at_receiver = at_receiver + self.message.bias
        messages = at_receiver.index_select(0, neighbours.receiver)
        messages += at_source.index_select(0, neighbours.source)
        if edges is not None:
            messages += edges(of_edge.transpose(0, 1).flatten(1)).view_as(messages)
        return messages

    def _aggregate(self, messages: Tensor, neighbours: Neighbours) -> Tensor:
        groups = neighbours.groups
        if len(self.aggregators) == 1:
            aggregated: Tensor = self.aggregators[0].aggregate(messages, groups)  # type: ignore[operator]
            return aggregated
        pairs = zip(self.aggregators, messages.unbind(1), strict=True)
        return torch.stack([tower.aggregate(rows, groups) for tower, rows in pairs], 1)  # type: ignore[operator]


def to_each(
    x: Float[Tensor, " n towers inputs"], weight: Float[Tensor, " towers inputs outputs"]
) -> Float[Tensor, " n towers outputs"]:
    """Each tower's rows times its own matrix."""
    towers, _, outputs = weight.shape
    if towers > 1 and outputs >= WIDE_TOWER:
        return torch.bmm(x.transpose(0, 1), weight).transpose(0, 1)
    # One product with a block-diagonal matrix: towers are too narrow for products of their own.
    product: Tensor = x.flatten(1) @ torch.block_diag(*weight)
    return product.view(len(x), *weight.shape[::2])


def to_all(
    x: Float[Tensor, " n inputs"], weight: Float[Tensor, " towers inputs outputs"]
) -> Float[Tensor, " n towers outputs"]:
    """The same rows times each tower's matrix."""
    product = x @ weight.transpose(0, 1).flatten(1)
    return product.view(len(x), *weight.shape[::2])


def with_mean_log_degree(
    name: str, mean_log_degree: float | None, options: dict[str, Any]
) -> dict[str, Any]:
    """The options of the aggregator `name`, with δ where it has scalers; options win over it."""
    if name not in ("pna", "pna-selection") or mean_log_degree is None:
        return options
    return {"mean_log": mean_log_degree, **options}
