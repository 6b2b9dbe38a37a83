"""From the states of a graph's nodes to one row for the graph."""

import math
from dataclasses import dataclass
from itertools import groupby

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

    PyG's `Set2Set` has one number for all. Graphs that have had their steps leave. Graphs whose
    sizes lie between the same two powers of two stand side by side, padded to the largest of
    them: a step reads them in one product and wastes less than half of it.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels, self.out_channels = channels, 2 * channels
        self.cell = nn.LSTMCell(2 * channels, channels)

    def forward(
        self, x: Float[Tensor, " n channels"], layout: GraphLayout
    ) -> Float[Tensor, " graphs outputs"]:
        """[query, what it reads] for each graph, in the order of the layout; zeros if empty."""
        bands = _bands(x, layout)
        answers = x.new_zeros(layout.sizes.numel(), self.out_channels)
        memory = x.new_zeros(layout.sizes.numel(), self.channels)
        finished, done = [x.new_zeros(0, self.out_channels)], 0
        for count, size in reversed(layout.blocks):
            for _ in range(done, size):
                query, memory = self.cell(answers, (answers[:, : self.channels], memory))
                answers = torch.cat([query, _read(bands, query)], -1)
            stay, done = len(answers) - count, size
            finished.append(answers[stay:])
            answers, memory = answers[:stay], memory[:stay]
            bands[-1] = bands[-1].without_last(count)
            if not len(bands[-1].rows):
                bands.pop()
        return torch.cat(finished[::-1])


@dataclass(frozen=True, eq=False)
class _Band:
    """Graphs of similar sizes, the largest first, with rows of zeros after those of the others."""

    rows: Float[Tensor, " graphs most channels"]
    padding: Float[Tensor, " graphs most"]
    """0 for a row that is there, -inf for one that is not."""

    def without_last(self, count: int) -> "_Band":
        stay = len(self.rows) - count
        return _Band(self.rows[:stay], self.padding[:stay])

    def read(self, query: Float[Tensor, " graphs channels"]) -> Float[Tensor, " graphs channels"]:
        """The rows of each graph, averaged with weights softmax(row · query)."""
        weights = (torch.bmm(self.rows, query.unsqueeze(2)).squeeze(2) + self.padding).softmax(1)
        return torch.bmm(weights.unsqueeze(1), self.rows).squeeze(1)


def _bands(x: Float[Tensor, " n channels"], layout: GraphLayout) -> list[_Band]:
    bands: list[_Band] = []
    first_graph = first_row = 0
    for _, blocks in groupby(layout.blocks, lambda block: block[1].bit_length()):
        shapes = list(blocks)
        most = shapes[0][1]
        num_graphs = sum(count for count, _ in shapes)
        num_rows = sum(count * size for count, size in shapes)
        sizes = layout.sizes.narrow(0, first_graph, num_graphs)
        is_there = torch.arange(most, device=x.device) < sizes.unsqueeze(1)
        rows = x.new_zeros(num_graphs * most, x.shape[1]).index_copy(
            0, is_there.flatten().nonzero().squeeze(1), x.narrow(0, first_row, num_rows)
        )
        padding = torch.zeros_like(is_there, dtype=x.dtype).masked_fill(~is_there, -math.inf)
        bands.append(_Band(rows.view(num_graphs, most, x.shape[1]), padding))
        first_graph, first_row = first_graph + num_graphs, first_row + num_rows
    return bands


def _read(bands: list[_Band], query: Tensor) -> Tensor:
    counts = [len(band.rows) for band in bands]
    reads = [band.read(asked) for band, asked in zip(bands, query.split(counts), strict=True)]
    return torch.cat(reads)
