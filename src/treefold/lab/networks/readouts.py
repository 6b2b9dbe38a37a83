"""From the states of a graph's nodes to one row for the graph."""

import torch
from torch import Tensor, nn

from treefold.aggr import RaggedAggregation
from treefold.lab.networks.graph_layout import GraphLayout
from treefold.shapes import Float


class AggregatorReadout(nn.Module):
    """Any aggregator over the nodes of each graph, such as a learned monoid."""

    def __init__(self, aggregator: RaggedAggregation) -> None:
        super().__init__()
        self.aggregator = aggregator
        self.out_channels = int(aggregator.out_channels)

    def forward(
        self, x: Float[Tensor, " n channels"], layout: GraphLayout
    ) -> Float[Tensor, " graphs outputs"]:
        """One row per graph, in the order of the layout."""
        aggregated: Tensor = self.aggregator.aggregate(x, layout.groups)
        return aggregated


class SizedSet2Set(nn.Module):
    """Set2Set with as many steps for a graph as it has nodes, which is PNA's number.

    PyG's `Set2Set` has one number for all. Graphs that have had their steps leave, and those of
    one size stand side by side, so attention is a dense product without padding.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels, self.out_channels = channels, 2 * channels
        self.cell = nn.LSTMCell(2 * channels, channels)

    def forward(
        self, x: Float[Tensor, " n channels"], layout: GraphLayout
    ) -> Float[Tensor, " graphs outputs"]:
        """[query, what it reads] for each graph, in the order of the layout; zeros if empty."""
        parts = x.split([count * size for count, size in layout.blocks])
        sets = [part.view(*b, self.channels) for part, b in zip(parts, layout.blocks, strict=True)]
        answers = x.new_zeros(layout.sizes.numel(), self.out_channels)
        memory = x.new_zeros(layout.sizes.numel(), self.channels)
        finished, done = [x.new_zeros(0, self.out_channels)], 0
        while sets:
            count, size, _ = sets[-1].shape
            for _ in range(done, size):
                query, memory = self.cell(answers, (answers[:, : self.channels], memory))
                answers = torch.cat([query, _read(sets, query)], -1)
            stay, done = len(answers) - count, size
            finished.append(answers[stay:])
            answers, memory = answers[:stay], memory[:stay]
            sets.pop()
        return torch.cat(finished[::-1])


def _read(sets: list[Tensor], query: Tensor) -> Tensor:
    """The rows of each set, averaged with weights softmax(row · query)."""
    reads = []
    for rows, asked in zip(sets, query.split([len(rows) for rows in sets]), strict=True):
        weights = (rows @ asked.unsqueeze(2)).softmax(1)
        reads.append((weights.transpose(1, 2) @ rows).squeeze(1))
    return torch.cat(reads)
