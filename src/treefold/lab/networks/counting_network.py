"""A network that learns what to count: each counter answers one question about the answer.

The questions are the binary digits of an answer, and whether it is more than 0, more than 1, and so
on. Counters of every kind try each of them, twice: the state in which nothing was counted may mean
no, or yes. Which kind can answer which question is for training to find out; see `choose`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.aggr import LCMAggregation
from treefold.fold import Groups, TableRows
from treefold.lab.tasks import SetData, to_bits
from treefold.operators import FiniteCounters
from treefold.shapes import Bool, Float, Int

MOST_BITS = 10
"""The most bits of an answer: there is a question for each answer."""
TRIES = 2
SETS_AT_ONCE = 4096
RIDGE, LOGIT = 1e-8, 8.0
"""The decoder's least squares: its ridge, and the logit that stands for a certain bit."""


def asked(answers: Int[Tensor, " n"], bits: int) -> Bool[Tensor, " n questions"]:
    """The right replies: all binary digits, the lowest first, then one for each threshold."""
    digits = to_bits(answers, bits) > 0
    if bits == 1:
        return digits
    thresholds = torch.arange((1 << bits) - 1, device=answers.device)
    return torch.cat([digits, answers[:, None] > thresholds], 1)


class CountingNetwork(nn.Module):
    """Integers are counted by finite counters, of which a linear map reads the answer's digits.

    What each integer counts is a table of logits, learned from questions alone, each by its own
    counter: a counter that answers a question always counts right for good. The decoder learns from
    states that it cannot change. Once hard, the table is settled.
    """

    def __init__(self, bits: int, answer_bits: int, kinds: Sequence[Sequence[int]]) -> None:
        super().__init__()
        if answer_bits > MOST_BITS:
            raise ValueError(
                f"answers of {answer_bits} bits; expected {MOST_BITS} or fewer, as there is a "
                "question for each answer"
            )
        self.answer_bits = answer_bits
        self.num_questions = asked(torch.zeros(1).long(), answer_bits).shape[1]
        num_each = TRIES * self.num_questions
        channels = num_each * sum(tail + period for tail, period in kinds)
        self.operator = FiniteCounters(channels, kinds)
        self.aggregator = LCMAggregation(channels, self.operator)
        self.logits = nn.Parameter(0.5 * torch.randn(1 << bits, channels))
        self.readers = nn.Parameter(torch.empty(channels))
        self.decoder = nn.Linear(channels, answer_bits)
        with torch.no_grad():
            none_is_no = torch.where(torch.arange(num_each) < self.num_questions, 1.0, -1.0)
            readers = self.operator.split(self.readers)
            for logits, reader in zip(self.operator.split(self.logits), readers, strict=True):
                logits[0].add_(2.0)  # few integers count at first: sums are not yet at their end
                for value, weight in enumerate(reader):
                    weight.copy_(none_is_no if value else -none_is_no)

    def table(self) -> Float[Tensor, " values channels"]:
        """The logits of what each integer counts."""
        return self.logits.detach() + 0 * self.logits if self.operator.hard else self.logits

    def forward(self, values: Int[Tensor, " n"], groups: Groups) -> Float[Tensor, " sets bits"]:
        """One row of logits per set: the answer's digits; in training, every reply as well."""
        states = self.aggregator.aggregate(TableRows(self.table(), values), groups)
        digits = self.decoder(states.detach() * self._in_use())
        return torch.cat([digits, self._replies(states)], 1) if self.training else digits

    def _in_use(self) -> Float[Tensor, " channels"]:
        """1 for the channels of counters that are used, else 0."""
        used = self.operator.used.to(self.logits.dtype).split(self.operator.num_each)
        return torch.cat(
            [u.repeat(kind.size) for kind, u in zip(self.operator.kinds, used, strict=True)]
        )

    def _replies(self, states: Tensor) -> Tensor:
        """The reply of each counter, `[sets, kinds * tries * questions]`."""
        parts = self.operator.split(states * self.readers)
        return torch.cat([torch.stack(part).sum(0) for part in parts], 1)

    @torch.no_grad()
    def settle(self, data: SetData) -> None:
        """Once states are hard, choose which counters are used, and have no others read."""
        if self.operator.hard:
            if bool(self.operator.used.all()):
                self.choose(data)
                self.fit_decoder(data)
            self.decoder.weight.mul_(self._in_use())

    @torch.no_grad()
    def choose(self, data: SetData, tolerance: float = 0.01) -> None:
        """Use only the counters that are needed, and harden them.

        One for each question: that of the smallest kind which answers it rightly on all sets, or
        else the one that is wrong least often. It must be wrong at most so often, as a share of the
        rarer reply. Of counters that count alike, the first is left.
        """
        self.operator.anneal(hard=True)
        wrong, rarer = self._errors(data)
        sizes = torch.tensor([kind.size for kind in self.operator.kinds], dtype=wrong.dtype)
        by_size = (sizes / sizes.max() / 2)[:, None, None].expand_as(wrong)
        cost = wrong.where(wrong > 0, by_size).flatten(0, 1)
        best = cost.argmin(0)
        right = cost.amin(0) <= (tolerance * rarer).clamp(min=0.5)
        good = (right & (rarer > 0)).nonzero().squeeze(1)
        used = torch.zeros_like(cost, dtype=torch.bool)
        used[best[good], good] = True
        used = used.flatten()
        self.operator.used.copy_(used & self._is_first_of_its_kind(used))

    @torch.no_grad()
    def fit_decoder(self, data: SetData) -> None:
        """Fit the decoder to the states of all sets by least squares; each answer weighs alike."""
        channels, common = self._in_use().nonzero().squeeze(1), torch.bincount(data.answers)
        table, gram, target = self.operator.code(self.logits), torch.zeros(()), torch.zeros(())
        for sets in torch.arange(len(data)).split(SETS_AT_ONCE):
            part = data.take(sets)
            states = self.operator.reduce_groups(TableRows(table, part.values), part.sizes)
            rows = F.pad(states[:, channels].double(), (0, 1), value=1.0)
            digits = 2.0 * to_bits(part.answers, self.answer_bits).double() - 1.0
            weighed = rows / common[part.answers][:, None]
            gram, target = gram + weighed.T @ rows, target + weighed.T @ digits
        answers = (common > 0).sum()
        ridge = RIDGE * answers * torch.eye(len(gram), dtype=gram.dtype)
        found = LOGIT * torch.linalg.solve(gram + ridge, target).T.to(self.decoder.weight.dtype)
        self.decoder.weight.zero_()
        self.decoder.weight[:, channels] = found[:, :-1]
        self.decoder.bias.copy_(found[:, -1])

    def _errors(self, data: SetData) -> tuple[Tensor, Tensor]:
        """The errors of each counter, `[kinds, tries, questions]`, with its states read as well as
        can be; and the number of rarer replies to each question.
        """
        table, columns = self.operator.code(self.logits), []
        right = asked(data.answers, self.answer_bits).to(table.dtype)
        for sets in torch.arange(len(data)).split(SETS_AT_ONCE):
            part, tried = data.take(sets), right[sets].repeat(1, TRIES)
            states = self.operator.reduce_groups(TableRows(table, part.values), part.sizes)
            for column in self.operator.split(states):
                columns.append(torch.stack([(s * tried).sum(0) for s in column]))
                columns.append(torch.stack([(s * (1 - tried)).sum(0) for s in column]))
        many = 2 * len(self.operator.kinds)
        yes, no = (
            [torch.stack(columns[k::many]).sum(0) for k in range(first, many, 2)]
            for first in (0, 1)
        )
        wrong = [torch.minimum(y, n).sum(0) for y, n in zip(yes, no, strict=True)]
        shape = (len(wrong), TRIES, self.num_questions)
        rarer = torch.minimum(right.sum(0), (1 - right).sum(0))
        return torch.stack(wrong).view(shape), rarer

    def _is_first_of_its_kind(self, used: Tensor) -> Tensor:
        """True for counters of which no earlier one that is used counts alike."""
        seen, first = set[tuple[int, ...]](), torch.zeros_like(used)
        counted = [torch.stack(part).argmax(0).T for part in self.operator.split(self.logits)]
        for counter in used.nonzero().squeeze(1).tolist():
            kind, place = divmod(counter, self.operator.num_each)
            key = (kind, *counted[kind][place].tolist())
            first[counter] = key not in seen
            seen.add(key)
        return first
