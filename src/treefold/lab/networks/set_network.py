"""The paper's network for multisets of integers (appendix:second_min_arch)."""

import torch
from torch import Tensor, nn

from treefold.aggr import RaggedAggregation
from treefold.fold import Groups, TableRows
from treefold.lab.tasks import SetTask, to_bits
from treefold.shapes import Float, Int


class SetNetwork(nn.Module):
    """Embed integers by their bits, aggregate each set, decode its answer's bits as logits.

    There are only 2^bits different integers, so each is embedded once per forward pass, and the
    aggregator gets them as rows of a table.
    """

    aggregator: RaggedAggregation
    is_digit: Tensor
    """`[values, 2 bits]`: of each integer, which bits are 0, then which are 1."""

    def __init__(
        self, bits: int, answer_bits: int, channels: int, aggregator: RaggedAggregation
    ) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(2, bits, channels))
        self.encoder = nn.Sequential(nn.Linear(channels, channels), nn.GELU())
        self.aggregator = aggregator
        self.decoder = nn.Sequential(
            nn.Linear(aggregator.out_channels, channels),
            nn.GELU(),
            nn.Linear(channels, answer_bits),
        )
        is_one = to_bits(torch.arange(2**bits), bits)
        is_digit = torch.cat([1 - is_one, is_one], 1).to(self.embedding.dtype)
        self.register_buffer("is_digit", is_digit, persistent=False)
        nn.init.normal_(self.embedding, std=bits**-0.5)

    def table(self) -> Float[Tensor, " values channels"]:
        """The embedding of every integer: the sum of its bits' vectors, through the encoder."""
        encoded: Tensor = self.encoder(self.is_digit @ self.embedding.flatten(0, 1))
        return encoded

    def forward(self, values: Int[Tensor, " n"], groups: Groups) -> Float[Tensor, " sets bits"]:
        """One row of logits per set."""
        states = self.aggregator.aggregate(TableRows(self.table(), values), groups)
        logits: Tensor = self.decoder(states)
        return logits


class OracleNetwork(nn.Module):
    """The exact monoid of a task in the place of a network: right from the start, nothing to learn.

    Its one parameter does nothing; optimisers and checkpoints need one.
    """

    def __init__(self, task: SetTask) -> None:
        super().__init__()
        self.task = task
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, values: Int[Tensor, " n"], groups: Groups) -> Float[Tensor, " sets bits"]:
        """Logits that leave no doubt."""
        answers = self.task.label(values[groups.order], groups.sizes).answers
        return (2.0 * to_bits(answers, self.task.answer_bits) - 1.0) * 20.0 + 0.0 * self.scale
