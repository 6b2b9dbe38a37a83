"""Graphs with the answers that a split asks for, cut into batches in memory."""

from dataclasses import dataclass

from torch import Tensor, device

from treefold.lab.tasks import GraphBatch, GraphStore, rows_of
from treefold.lab.tasks.your_graphs.problem import Level
from treefold.shapes import Bool, Int, Shaped


@dataclass(frozen=True, eq=False)
class AskedBatch:
    """Graphs for a network, and the right answers."""

    graphs: GraphBatch
    asked: Int[Tensor, " asked"]
    """The network's answers that count, by number."""
    y: Shaped[Tensor, " asked *outputs"]
    """The right answers."""

    def __len__(self) -> int:
        return len(self.graphs)

    def to(self, where: device | str) -> "AskedBatch":
        """The same on another device."""
        return AskedBatch(self.graphs.to(where), self.asked.to(where), self.y.to(where))


@dataclass(frozen=True, eq=False)
class Asked:
    """The graphs of one split; `y` and `asked` have a row for each graph of the store, or node."""

    store: GraphStore
    y: Shaped[Tensor, " answers *outputs"]
    asked: Bool[Tensor, " answers"]
    graphs: Int[Tensor, " split"]
    level: Level

    def __len__(self) -> int:
        return len(self.graphs)

    def take(self, chosen: Int[Tensor, " chosen"]) -> AskedBatch:
        """The graphs at these places of the split, in this order."""
        graphs = self.graphs[chosen]
        rows = rows_of(self.store.sizes, graphs) if self.level == "node" else graphs
        asked = self.asked[rows].nonzero().squeeze(1)
        return AskedBatch(self.store.take(graphs), asked, self.y[rows[asked]])

    def to(self, where: device | str) -> "Asked":
        """The same on another device; batches are then cut there."""
        return Asked(
            self.store.to(where),
            self.y.to(where),
            self.asked.to(where),
            self.graphs.to(where),
            self.level,
        )
