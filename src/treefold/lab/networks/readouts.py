"""From the states of a graph's nodes to one row for the graph."""

import math
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

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
        # Half of the cell's input is its state: one matrix for both.
        cell = self.cell
        weight = cell.weight_ih + F.pad(cell.weight_hh, (0, self.channels))
        with torch.autocast(x.device.type, enabled=False):
            bands = _bands(x.to(weight.dtype), layout)
            answers: Tensor = _AllSteps.apply(  # type: ignore[no-untyped-call]
                weight,
                cell.bias_ih + cell.bias_hh,
                layout.blocks,
                [band.padding for band in bands],
                *(band.rows for band in bands),
            )
        return answers


class _Band(NamedTuple):
    """Graphs of similar sizes, the largest first, with rows of zeros after those of the others."""

    rows: Float[Tensor, " graphs most channels"]
    padding: Float[Tensor, " graphs most"]
    """0 for a row that is there, -inf for one that is not."""


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


class _Step(NamedTuple):
    """The tensors that the backward of a step reads."""

    answers: Tensor
    """The input of the cell."""
    gates: Tensor
    """After their sigmoids and tanh: input, forget, cell, output."""
    old_memory: Tensor
    squashed: Tensor
    """The tanh of the new memory."""
    weights: list[Tensor]
    """The softmax over the rows, by band."""


class _AllSteps(torch.autograd.Function):
    """Every step of every graph as one operation: small tensors, so calls are what costs.

    With autograd's own records of each product the same takes almost three times as long.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Float[Tensor, " gates outputs"],
        bias: Float[Tensor, " gates"],
        blocks: list[tuple[int, int]],
        paddings: list[Tensor],
        *bands: Tensor,
    ) -> Float[Tensor, " graphs outputs"]:
        channels, num_graphs = weight.shape[1] // 2, sum(count for count, _ in blocks)
        answers = weight.new_zeros(num_graphs, 2 * channels)
        memory, finished = answers[:, :channels], torch.zeros_like(answers)
        steps: list[_Step] = []
        done = 0
        for count, size in reversed(blocks):
            for _ in range(done, size):
                gates = torch.addmm(bias, answers, weight.t())
                gates[:, : 2 * channels].sigmoid_()
                gates[:, 2 * channels : 3 * channels].tanh_()
                gates[:, 3 * channels :].sigmoid_()
                enters, stays, new, leaves = gates.chunk(4, 1)
                old, memory = memory, torch.addcmul(stays * memory, enters, new)
                squashed = memory.tanh()
                query = leaves * squashed
                weights, reads = _read(bands, paddings, query)
                steps.append(_Step(answers, gates, old, squashed, weights))
                answers = torch.cat([query, reads], 1)
            left, done = len(answers) - count, size
            finished[left : left + count] = answers[left:]
            answers, memory = answers[:left], memory[:left]
        ctx.save_for_backward(weight, *bands)
        ctx.steps, ctx.blocks = steps, blocks
        return finished

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weight, *bands = ctx.saved_tensors
        channels = weight.shape[1] // 2
        of_bands = [torch.zeros_like(rows) for rows in bands]
        of_gates: list[Tensor] = []
        of_answers, of_memory = gradient[:0], gradient[:0, :channels]
        remaining, num_graphs = list(ctx.steps), 0
        sizes = [size for _, size in ctx.blocks]
        for (count, size), smaller in zip(ctx.blocks, [*sizes[1:], 0], strict=True):
            joined = gradient[num_graphs : num_graphs + count]
            of_answers = torch.cat([of_answers, joined])
            of_memory = F.pad(of_memory, (0, 0, 0, count))
            num_graphs += count
            for _ in range(size - smaller):
                step: _Step = remaining.pop()
                of_query = of_answers[:, :channels].clone()
                _read_backward(bands, of_bands, step, of_query, of_answers[:, channels:])
                enters, stays, new, leaves = step.gates.chunk(4, 1)
                of_memory = of_memory + of_query * leaves * (1 - step.squashed.square())
                of_gate = torch.cat(
                    [of_memory * new, of_memory * step.old_memory, of_memory * enters,
                     of_query * step.squashed], 1
                )  # fmt: skip
                _through_gates(of_gate, step.gates, channels)
                of_gates.append(of_gate)
                of_answers, of_memory = of_gate @ weight, of_memory * stays
        inputs = torch.cat([step.answers for step in reversed(ctx.steps)] or [gradient[:0]])
        of_sums = torch.cat(of_gates or [weight.t()[:0]])
        return of_sums.t() @ inputs, of_sums.sum(0), None, None, *of_bands


def _read(bands: Any, paddings: list[Tensor], query: Tensor) -> tuple[list[Tensor], Tensor]:
    """Average the rows of each graph with weights softmax(row · query), band by band."""
    weights, reads, first = [], [], 0
    for rows, padding in zip(bands, paddings, strict=True):
        asked = query[first : first + len(rows)].unsqueeze(2)
        there = len(asked)
        if not there:
            break
        scores = torch.bmm(rows[:there], asked).squeeze(2)
        weights.append(scores.add_(padding[:there]).softmax(1))
        reads.append(torch.bmm(weights[-1].unsqueeze(1), rows[:there]).squeeze(1))
        first += there
    return weights, reads[0] if len(reads) == 1 else torch.cat(reads)


def _read_backward(
    bands: list[Tensor], of_bands: list[Tensor], step: _Step, of_query: Tensor, of_reads: Tensor
) -> None:
    """Add what the reads pass on to the gradients of the rows and of the query, in place."""
    first, channels = 0, of_query.shape[1]
    query = step.gates[:, 3 * channels :] * step.squashed
    for rows, of_rows, weights in zip(bands, of_bands, step.weights, strict=False):
        there = slice(first, first + len(weights))
        present, of_read = rows[: len(weights)], of_reads[there].unsqueeze(1)
        of_weights = torch.bmm(of_read, present.transpose(1, 2)).squeeze(1).mul_(weights)
        of_scores = of_weights.addcmul_(weights, of_weights.sum(1, keepdim=True), value=-1)
        of_query[there] += torch.bmm(of_scores.unsqueeze(1), present).squeeze(1)
        of_rows[: len(weights)].addcmul_(of_scores.unsqueeze(2), query[there].unsqueeze(1))
        of_rows[: len(weights)].addcmul_(weights.unsqueeze(2), of_read)
        first += len(weights)


def _through_gates(of_gate: Tensor, gates: Tensor, channels: int) -> None:
    """Turn gradients after the sigmoids and the tanh into those before them, in place."""
    slope = gates * (1 - gates)
    new = gates[:, 2 * channels : 3 * channels]
    slope[:, 2 * channels : 3 * channels] = 1 - new.square()
    of_gate.mul_(slope)
