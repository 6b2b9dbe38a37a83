"""The layers of PNA's real-world networks: normalised towers, and plain ones for MolHIV."""

from dataclasses import dataclass

from torch import Tensor, nn

from treefold.aggr import RaggedAggregation
from treefold.fold import TableRows
from treefold.lab.networks.graph_layout import Neighbours
from treefold.lab.networks.tower_conv import EdgeRows, TowerConv
from treefold.shapes import Float


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Inputs of a layer other than the states of nodes; the same for all layers."""

    neighbours: Neighbours
    shrinking: Float[Tensor, " n 1"]
    """1/√N for each node of a graph of N nodes: PNA's graph norm."""
    edges: EdgeRows | None = None


class NormalizedTowers(nn.Module):
    """Towers, then graph norm, batch norm and dropout, then the mixing; a residual if it fits."""

    def __init__(self, conv: TowerConv, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv = conv
        self.norm = nn.BatchNorm1d(conv.out_channels)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, " n inputs"], around: Surroundings
    ) -> Float[Tensor, " n outputs"]:
        """The new states of all nodes."""
        updated = self.conv.updated(x, around.neighbours, around.edges)
        mixed: Tensor = self.conv.mix(self.dropout(self.norm(updated * around.shrinking)))
        return x + mixed if mixed.shape == x.shape else mixed


class PlainLayer(nn.Module):
    """Neighbours' states, aggregated as they are, through a linear map; no towers, no messages.

    Then batch norm, ReLU, a residual and dropout. Edges and a node's own state do not go into the
    aggregate.
    """

    def __init__(self, aggregator: RaggedAggregation, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.aggregator = aggregator
        self.update = nn.Linear(aggregator.out_channels, channels)
        self.norm = nn.BatchNorm1d(channels)
        self.dropout = nn.Dropout(dropout)

    def rows(self, x: Float[Tensor, " n channels"], neighbours: Neighbours) -> TableRows:
        """The rows to aggregate: a node's state once for each edge that leaves it."""
        return TableRows(x, neighbours.source)

    def forward(
        self, x: Float[Tensor, " n channels"], around: Surroundings
    ) -> Float[Tensor, " n channels"]:
        """The new states of all nodes."""
        neighbours = around.neighbours
        aggregated = self.aggregator.aggregate(self.rows(x, neighbours), neighbours.groups)
        updated: Tensor = self.norm(self.update(aggregated)).relu()
        states: Tensor = self.dropout(x + updated)
        return states
