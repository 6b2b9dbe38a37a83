"""Finite counters: products of cyclic monoids, the parts of every finite commutative monoid."""

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from treefold.fold import TableRows, plan_tree, take_rows, tree_reduce
from treefold.operators.counter_sums import LEAST_FIRST, sum_over, sums_around, sums_to_an_end
from treefold.operators.operator import Operator
from treefold.operators.transforms import are_transforms_active
from treefold.shapes import Float, Int

FLOOR = 2e-3
"""With noise, soft states share so much evenly among the values of a counter."""


class CounterKind(NamedTuple):
    """Counters alike: 0, 1, ..., tail + period - 1, after which comes `tail` again.

    (2, 1) counts none, one, many; (1, 1) is a logical or; (0, 5) counts modulo 5.
    """

    tail: int
    period: int

    @property
    def size(self) -> int:
        """The number of values of such a counter."""
        return self.tail + self.period

    def sum(self, i: int, j: int) -> int:
        """The value that counting i and then j more comes to."""
        total = i + j
        return total if total < self.size else self.tail + (total - self.tail) % self.period


class FiniteCounters(Operator):
    """The operator that adds counters; it has no weights, all learning is in what elements count.

    A state is a distribution over the values of each counter, and a ⊕ b is the distribution of the
    sum, as of independent counts: a product in a monoid algebra. So every law of a commutative
    monoid holds, before counts are sharp and after, and once they are sharp, to the bit: states are
    then rows of 0 and 1, of which sums of products are exact.

    Nothing is lost by this form. In a finite commutative monoid the multiples of an element come
    back into a circle after some steps; so the monoid is a quotient of a product of counters, one
    for each generator, and what reads the state can take the quotient.

    `kinds` are the (tail, period) of counters; there are equally many of each, as many as fit into
    the channels. What an element counts is learned: `code` takes rows of logits, through a softmax
    for each counter. `anneal` sets the slope of that softmax and the noise on its logits; once
    `hard`, the largest logit takes all, in training with straight-through gradients. Counters that
    are not `used` count nothing, which makes states fewer.

    What is merged is taken for weights: negative ones count as zero, and those of a counter are
    divided by their sum, which of states is 1.
    """

    identity: Tensor
    used: Tensor
    """`[counters]`, those of the first kind first."""

    def __init__(self, channels: int, kinds: Sequence[Sequence[int]] = ((2, 1),)) -> None:
        super().__init__(channels)
        self.kinds = tuple(CounterKind(*kind) for kind in kinds)
        for kind in self.kinds:
            if kind.tail < 0 or kind.period < 1:
                raise ValueError(
                    f"a counter of tail {kind.tail} and period {kind.period}; expected a tail "
                    "of 0 or more and a period of 1 or more, such as (2, 1) or (0, 5)"
                )
        width = sum(kind.size for kind in self.kinds)
        if not self.kinds:
            raise ValueError("no kinds of counters; expected some, such as [(2, 1)]")
        self.num_each = channels // width
        self.slope, self.noise, self.hard = 1.0, 0.0, False
        start = torch.zeros(channels)
        for columns in self.split(start):
            columns[0].fill_(1.0)
        start[width * self.num_each :] = 1.0
        self.register_buffer("identity", start, persistent=False)
        counters = self.num_each * len(self.kinds)
        self.register_buffer("used", torch.ones(counters, dtype=torch.bool))

    def anneal(self, slope: float = 1.0, noise: float = 0.0, hard: bool = False) -> None:
        """Set the slope (1 or more), the noise on logits, and whether to round."""
        if not (1 <= slope < math.inf and 0 <= noise < math.inf):
            raise ValueError(
                f"slope is {slope} and noise {noise}; expected a slope of 1 or more, and no "
                "negative noise"
            )
        self.slope, self.noise, self.hard = float(slope), float(noise), bool(hard)

    def get_extra_state(self) -> Tensor:
        """The progress of annealing, for checkpoints."""
        state = torch.tensor([self.slope, self.noise, self.hard], dtype=torch.float64)
        return state.view(torch.int64)  # no float: the type of parameters is another matter

    def set_extra_state(self, state: Tensor) -> None:
        """Take over how far annealing was."""
        slope, noise, hard = state.view(torch.float64).tolist()
        self.anneal(slope, noise, bool(hard))

    def reset_parameters(self) -> None:
        """There are none; counts are as soft as at first again, and all are used."""
        self.anneal()
        self.used.fill_(True)

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row."""
        columns = []
        for kind, p, q in zip(self.kinds, self._shares(a), self._shares(b), strict=True):
            total = [torch.zeros_like(p[0])] * kind.size
            for i in range(kind.size):
                for j in range(kind.size):
                    at = kind.sum(i, j)
                    total[at] = total[at] + p[i] * q[j]
            columns += total
        return self._joined(columns, a)

    def code(self, x: Float[Tensor, " *n channels"]) -> Float[Tensor, " *n channels"]:
        """The state of a row of logits: a softmax for each counter, as sharp as annealing is."""
        columns = []
        for column, used in zip(self.split(x), self.used.split(self.num_each), strict=True):
            shares = self._softened(torch.stack(column))
            columns += [share.where(used, float(i == 0)) for i, share in enumerate(shares)]
        return self._joined(columns, x)

    def _softened(self, logits: Tensor) -> Tensor:
        """The distribution of each counter, `[values, *n, counters]`."""
        noisy = self.training and self.noise > 0 and not self.hard
        if noisy:
            logits = logits + self.noise * torch.randn_like(logits)
        shares = (self.slope * logits).softmax(0)
        if not self.hard:
            return (1 - FLOOR) * shares + FLOOR / len(shares) if noisy else shares
        most = F.one_hot(logits.argmax(0), len(shares)).movedim(-1, 0)
        return most.to(shares.dtype) + (shares - shares.detach())

    def reduce_groups(
        self, x: TableRows, sizes: Int[Tensor, " groups"]
    ) -> Float[Tensor, " groups *inner channels"]:
        """The states of consecutive groups, to rounding as over trees; of codes, to the bit."""
        states = self._reduced(x, sizes)
        if not len(x):
            return states
        firsts = (sizes.cumsum(0) - sizes).clamp(max=len(x) - 1)
        alone = (sizes == 1).view(-1, *[1] * (states.dim() - 1))
        return torch.where(alone, cast(Tensor, take_rows(x, firsts)), states)

    def _reduced(self, x: TableRows, sizes: Tensor) -> Tensor:
        """The same, one element among them to rounding too."""
        if self.hard and not (torch.is_grad_enabled() and x.table.requires_grad):
            return self._added(x, sizes)
        table = self.split(x.table)
        shares = [list(column) for column in table]
        firsts = [s[0] for k, s in zip(self.kinds, shares, strict=True) if k.period == 1]
        mixed = any(kind.tail and kind.period > 1 for kind in self.kinds)
        by_tree = mixed or self.hard or are_transforms_active()
        if by_tree or any(bool((first < LEAST_FIRST).any()) for first in firsts):
            states = tree_reduce(self, x, plan_tree(sizes))
            assert isinstance(states, Tensor)
            return states
        return self._series(x, sizes, shares)

    def _series(self, x: TableRows, sizes: Tensor, shares: list[list[Tensor]]) -> Tensor:
        """The states of groups, from the distributions of the table's rows."""
        total, columns = sum_over(x, sizes), list[Tensor]()
        used = self.used.split(self.num_each)
        for kind, own, among in zip(self.kinds, shares, used, strict=True):
            reduce = sums_to_an_end if kind.period == 1 else sums_around
            places = among.nonzero().squeeze(1)
            made = reduce([share.index_select(-1, places) for share in own], total)
            for i, share in enumerate(made):
                blank = share.new_full((*share.shape[:-1], self.num_each), float(i == 0))
                columns.append(blank.index_copy(-1, places, share))
        return self._joined(columns, columns[0])

    def _added(self, x: TableRows, sizes: Tensor) -> Tensor:
        """The same for rows of 0 and 1, in whole numbers."""
        total, columns = sum_over(x, sizes), list[Tensor]()
        for kind, column in zip(self.kinds, self.split(x.table), strict=True):
            counts = total(torch.stack(column).argmax(0).double()).long()
            past = kind.tail + (counts - kind.tail) % kind.period
            ends = F.one_hot(counts.where(counts < kind.size, past), kind.size)
            columns += list(ends.movedim(-1, 0).to(x.table.dtype).unbind(0))
        return self._joined(columns, columns[0])

    def counts(self) -> "WholeCounters":
        """The same once hard, on whole numbers: one byte for each counter that is used."""
        return WholeCounters(self)

    def split(self, x: Tensor) -> list[tuple[Tensor, ...]]:
        """For each kind, the weights of its first value, of its second, ..., `[*n, counters]`."""
        sizes = [self.num_each] * sum(kind.size for kind in self.kinds)
        columns = iter(x[..., : sum(sizes)].split(sizes, -1))
        return [tuple(next(columns) for _ in range(kind.size)) for kind in self.kinds]

    def _shares(self, x: Tensor) -> list[list[Tensor]]:
        """Weights divided by their sum, for each kind of counter; no weight at all is a zero."""
        shares = []
        for column in self.split(x):
            weights = [F.relu(weight) for weight in column]
            total = torch.stack(weights).sum(0)
            none = total == 0
            total = total.masked_fill(none, 1)
            first = torch.where(none, torch.ones_like(total), weights[0] / total)
            shares.append([first, *(weight / total for weight in weights[1:])])
        return shares

    def _joined(self, columns: list[Tensor], like: Tensor) -> Tensor:
        """Columns side by side; channels that hold no counter are 1."""
        spare = self.channels - self.num_each * len(columns)
        return torch.cat([*columns, like.new_ones(*like.shape[:-1], spare)], -1)

    def extra_repr(self) -> str:
        """The sizes that `print(op)` shows."""
        kinds = ", ".join(f"{self.num_each} x ({k.tail}, {k.period})" for k in self.kinds)
        return f"{self.channels}, {kinds}"


class WholeCounters:
    """The counters of an operator that are used, as a monoid on rows of bytes.

    `encode` and `decode` lead from codes of the operator to counts and back.
    """

    def __init__(self, op: FiniteCounters) -> None:
        if any(kind.size > 128 for kind in op.kinds):
            raise ValueError(
                "a counter of more than 128 values; expected sums that fit into a byte"
            )
        self.op = op
        kinds = [kind for kind in op.kinds for _ in range(op.num_each)]
        used = op.used.nonzero().squeeze(1)
        self.places = used
        tails = [kinds[place].tail for place in used.tolist()]
        periods = [kinds[place].period for place in used.tolist()]
        self.tails = torch.tensor(tails, dtype=torch.uint8)
        self.periods = torch.tensor(periods, dtype=torch.uint8)
        self.identity = torch.zeros(len(used), dtype=torch.uint8)
        self._goes_around = any(period > 1 for period in periods)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Add counts, to an end or around."""
        total = a + b
        if not self._goes_around:
            return torch.minimum(total, self.tails)
        past = self.tails + (total - self.tails) % self.periods
        return torch.where(total < self.tails + self.periods, total, past)

    def encode(self, codes: Tensor) -> Tensor:
        """The counts in rows of codes."""
        counts = [torch.stack(column).argmax(0) for column in self.op.split(codes)]
        return torch.cat(counts, -1)[..., self.places].to(torch.uint8)

    def decode(self, counts: Tensor) -> Tensor:
        """The codes of counts; counters that are not used have counted nothing."""
        every = counts.new_zeros(*counts.shape[:-1], len(self.op.used)).long()
        every[..., self.places] = counts.long()
        columns = list[Tensor]()
        for kind, own in zip(self.op.kinds, every.split(self.op.num_each, -1), strict=True):
            columns += list(F.one_hot(own, kind.size).movedim(-1, 0).to(self.op.identity.dtype))
        return self.op._joined(columns, columns[0])
