"""Learning what to count: from labelled multisets to a finite monoid that can be certified.

The network is a table of what each value counts, the counters, and a decoder. It is trained softly
on sets drawn half evenly and half by their loss. Then what values count is settled entry by entry,
the surest first, while all the rest still learns. At last a decoder is trained on the distinct
states of the training sets, and counters that it can do without are dropped.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.fold import Groups, TableRows, plan_tree, tree_reduce
from treefold.lab.tasks import SetData, SetTask, to_bits
from treefold.operators import FiniteCounters
from treefold.shapes import Float, Int


@dataclass(frozen=True)
class Counting:
    """A recipe: counters, widths, and how long each part of the training takes."""

    kinds: tuple[tuple[int, int], ...] = ((2, 1),)
    num_each: int = 96
    """Counters of each kind."""
    width: int = 128
    soft_epochs: int = 16
    settling_epochs: int = 16
    batch_size: int = 512
    learning_rate: float = 3e-3
    last_learning_rate: float = 4.5e-4
    """While entries are settled."""
    weight_decay: float = 0.01
    noise: float = 0.1
    floor: float = 0.002
    """The least probability of a value of a counter while its entry is soft."""
    sure: float = 0.998
    """Entries as sure as that are settled whenever settling is under way."""
    decoder_steps: int = 3000
    dropping: float = 0.01
    """By how much the norm of a counter's weights shrinks in each step of the decoder."""


class CountingNetwork(nn.Module):
    """Integers through a small network into logits of counters; their sums through a decoder.

    `settled` holds, for each integer and counter, the value that it counts, or -1 where that is
    still learned.
    """

    settled: Tensor

    def __init__(self, bits: int, answer_bits: int, recipe: Counting) -> None:
        super().__init__()
        channels = recipe.num_each * sum(map(sum, recipe.kinds))
        self.recipe = recipe
        self.operator = FiniteCounters(channels, recipe.kinds)
        embedding = nn.Linear(2 * bits, recipe.width, bias=False)
        nn.init.normal_(embedding.weight, std=bits**-0.5)
        self.encoder = nn.Sequential(
            embedding,
            nn.Linear(recipe.width, recipe.width),
            nn.GELU(),
            nn.Linear(recipe.width, channels),
        )
        self.decoder = _decoder(channels, recipe.width, answer_bits)
        is_one = to_bits(torch.arange(2**bits), bits).to(torch.get_default_dtype())
        self.register_buffer("digits", torch.cat([1 - is_one, is_one], 1), persistent=False)
        counters = recipe.num_each * len(recipe.kinds)
        self.register_buffer("settled", torch.full((2**bits, counters), -1))

    def table(self) -> Float[Tensor, " values channels"]:
        """What each integer counts: a distribution for each counter, or one value where settled."""
        logits, columns, start = self.encoder(self.digits), [], 0
        for column in self.operator.split(logits):
            soft = torch.stack(column)
            if self.training:
                soft = soft + self.recipe.noise * torch.randn_like(soft)
            floor = self.recipe.floor
            soft = (1 - floor) * soft.softmax(0) + floor / len(column)
            settled = self.settled[:, start : start + column[0].shape[1]]
            values = torch.arange(len(column), device=settled.device).view(-1, 1, 1)
            columns += list(torch.where(settled < 0, soft, (settled == values).to(soft.dtype)))
            start += settled.shape[1]
        return torch.cat(columns, -1)

    def forward(self, values: Int[Tensor, " n"], groups: Groups) -> Float[Tensor, " sets bits"]:
        """One row of logits per set, folded over trees."""
        rows = TableRows(self.table(), values[groups.order])
        states = tree_reduce(self.operator, rows, plan_tree(groups.sizes))
        logits: Tensor = self.decoder(states)
        return logits

    def of_counts(self, counts: Float[Tensor, " sets values"]) -> Float[Tensor, " sets bits"]:
        """The same for multisets that are given as how often each integer occurs."""
        logits: Tensor = self.decoder(fold_counts(self.operator, self.table(), counts))
        return logits

    @torch.no_grad()
    def settle(self, fraction: float) -> float:
        """Settle the surest entries, this fraction of all at least; gives how many are settled."""
        training = self.training
        shares = self.eval().operator.split(self.table())
        self.train(training)
        best = [torch.stack(column).max(0) for column in shares]
        sureness = torch.cat([found.values for found in best], 1)
        values = torch.cat([found.indices for found in best], 1)
        is_open = self.settled < 0
        missing = math.ceil(fraction * is_open.numel()) - int((~is_open).sum())
        bar = self.recipe.sure
        if missing > 0:
            bar = min(bar, float(sureness[is_open].topk(missing).values[-1]))
        chosen = is_open & (sureness >= bar)
        self.settled[chosen] = values[chosen]
        return float((self.settled >= 0).double().mean())


class Report(NamedTuple):
    """How training stands after an epoch."""

    epoch: int
    loss: float
    wrong: int
    settled: float
    counters: int


@dataclass
class Learned:
    """A network, and the history of its training."""

    network: CountingNetwork
    reports: list[Report] = field(default_factory=list)


def learn_counters(task: SetTask, seed: int, recipe: Counting) -> Iterator[Learned]:
    """Train on the task's training sets of a seed; yields after every epoch, and at the end."""
    torch.manual_seed(seed)
    data = task.train(seed)
    counts, bits = _histogram(data, task.num_values), to_bits(data.answers, task.answer_bits)
    bits = bits.to(counts.dtype)
    learned = Learned(CountingNetwork(task.bits, task.answer_bits, recipe))
    network, soft = learned.network, recipe.soft_epochs
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=recipe.weight_decay)
    warm_up = 2 * math.ceil(len(data) / recipe.batch_size)
    frequency = torch.bincount(data.answers)
    weight, step = 1 / frequency[data.answers].double(), 0
    for epoch in range(soft + recipe.settling_epochs):
        falling = 0.5 + 0.5 * math.cos(math.pi * min(1.0, epoch / soft))
        rate = recipe.learning_rate * falling
        for chosen in _batches(weight, recipe.batch_size):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = max(rate, recipe.last_learning_rate) * min(1.0, step / warm_up)
            network.train()
            loss = F.binary_cross_entropy_with_logits(
                network.of_counts(counts[chosen]), bits[chosen]
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        losses, wrong = _scores(network, counts, bits)
        if epoch:
            weight = losses.double().clamp(max=2) + 0.002
        settled = 0.0
        if epoch >= soft:
            first = learned.reports[soft].settled if epoch > soft else 0.0
            part = (epoch - soft) / max(1, recipe.settling_epochs - 1)
            settled = network.settle(first + (1 - first) * part)
        report = Report(epoch + 1, float(losses.mean()), wrong, settled, network.settled.shape[1])
        learned.reports.append(report)
        yield learned
    finish(network, counts, bits)
    losses, wrong = _scores(network, counts, bits)
    kept = int((network.settled != 0).any(0).sum())
    learned.reports.append(Report(len(learned.reports), float(losses.mean()), wrong, 1.0, kept))
    yield learned


def finish(network: CountingNetwork, counts: Tensor, bits: Tensor) -> None:
    """Train the decoder again, on distinct states, and drop the counters it can do without.

    If it then fails for some states, fewer are dropped, and at last none.
    """
    _drop_duplicates(network)
    network.operator.anneal(hard=True)
    network.eval()
    with torch.no_grad():
        states = fold_counts(network.operator, network.table(), counts)
    rows = torch.cat([states.round(), bits], 1).to(torch.int8).unique(dim=0).to(states.dtype)
    states, bits = rows[:, : states.shape[1]], rows[:, states.shape[1] :]
    found = list[tuple[int, nn.Sequential, Tensor]]()
    for dropping in (network.recipe.dropping, network.recipe.dropping / 5, 0.0):
        decoder, unused = _trained_decoder(network, states, bits, dropping)
        with torch.no_grad():
            wrong = int(((decoder(states) > 0) != (bits > 0)).any(1).sum())
        found.append((wrong, decoder, unused))
        if not wrong:
            break
    _, network.decoder, unused = min(found, key=lambda attempt: attempt[0])
    network.settled[:, unused] = 0


def _trained_decoder(
    network: CountingNetwork, states: Tensor, bits: Tensor, dropping: float
) -> tuple[nn.Sequential, Tensor]:
    """A decoder, and which counters it does not look at."""
    recipe = network.recipe
    decoder = _decoder(states.shape[1], recipe.width, bits.shape[1])
    weight = cast(nn.Linear, decoder[0]).weight
    owner = _counter_of_channel(network.operator)
    optimizer = torch.optim.Adam(decoder.parameters())
    for step in range(recipe.decoder_steps):
        part = step / recipe.decoder_steps
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, step / 50, 4 * (1 - part)) + 1e-5
        chosen = torch.randint(0, len(states), (1024,))
        loss = F.binary_cross_entropy_with_logits(decoder(states[chosen]), bits[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if part < 0.7 and dropping:
            with torch.no_grad():
                norms = _norms(weight, owner)
                shrunk = 1 - dropping * min(1.0, 5 * part) / norms.clamp(min=1e-12)
                weight.mul_(shrunk.clamp(min=0)[owner])
    return decoder, _norms(weight, owner) == 0


def fold_counts(op: FiniteCounters, table: Tensor, counts: Tensor) -> Tensor:
    """The states of multisets: of each, how often every row of `table` occurs in it.

    Sums of logarithms in the place of a tree: for counters with no circle, of the power series of
    what is counted, cut off at their end; for those with nothing else, of its Fourier transform.
    """
    columns = list[Tensor]()
    for kind, shares in zip(op.kinds, op.split(table), strict=True):
        if kind.period == 1:
            columns += _counted_to_an_end(shares, counts)
        elif kind.tail == 0:
            columns += _counted_around(torch.stack(shares), counts)
        else:
            raise ValueError(
                f"counters of tail {kind.tail} and period {kind.period}; use two kinds"
            )
    spare = op.channels - sum(column.shape[-1] for column in columns)
    return torch.cat([*columns, table.new_ones(len(counts), spare)], -1)


def _counted_to_an_end(shares: tuple[Tensor, ...], counts: Tensor) -> list[Tensor]:
    first = shares[0].clamp(min=1e-6)
    ratios = [share / first for share in shares[1:-1]]
    # Coefficients of log(1 + r1 z + r2 z² + ...), times their power; then back.
    logs = list[Tensor]()
    for k, ratio in enumerate(ratios, 1):
        log = k * ratio
        for j in range(1, k):
            log = log - logs[j - 1] * ratios[k - j - 1]
        logs.append(log)
    sums = [counts @ log for log in logs]
    none = (counts @ first.log()).exp()
    series = [torch.ones_like(none)]
    for k in range(1, len(sums) + 1):
        terms = [sums[j - 1] * series[k - j] for j in range(1, k + 1)]
        series.append(torch.stack(terms).sum(0) / k)
    made = [none * term for term in series]
    return [*made, 1 - torch.stack(made).sum(0)]


def _counted_around(shares: Tensor, counts: Tensor) -> list[Tensor]:
    m = len(shares)
    places = torch.arange(m, dtype=shares.dtype)
    angles = 2 * math.pi / m * torch.outer(places, places)
    real = torch.einsum("kj,jvc->kvc", angles.cos(), shares)
    imaginary = torch.einsum("kj,jvc->kvc", angles.sin(), shares)
    size = (real.square() + imaginary.square()).clamp(min=1e-12).log() / 2
    turn = torch.atan2(imaginary, real + 1e-12 * (real == 0))
    size, turn = (torch.einsum("sv,kvc->ksc", counts, part) for part in (size, turn))
    real, imaginary = size.exp() * turn.cos(), size.exp() * turn.sin()
    made = torch.einsum("jk,ksc->jsc", angles.cos(), real)
    made = made + torch.einsum("jk,ksc->jsc", angles.sin(), imaginary)
    return list(made / m)


def _decoder(channels: int, width: int, answer_bits: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(channels, width), nn.ReLU(), nn.Linear(width, answer_bits))


def _histogram(data: SetData, num_values: int) -> Tensor:
    counts = torch.zeros(len(data.sizes), num_values)
    sets = torch.arange(len(data.sizes)).repeat_interleave(data.sizes)
    return counts.index_put_((sets, data.values), torch.ones(()), accumulate=True)


def _batches(weight: Tensor, batch_size: int) -> tuple[Tensor, ...]:
    """All indices once: half of them evenly drawn, half by weight."""
    half = len(weight) // 2
    drawn = torch.multinomial(weight, half, replacement=True)
    mixed = torch.stack([torch.randperm(len(weight))[:half], drawn], 1).flatten()
    return tuple(mixed.split(batch_size))


@torch.no_grad()
def _scores(network: CountingNetwork, counts: Tensor, bits: Tensor) -> tuple[Tensor, int]:
    network.eval()
    logits = torch.cat([network.of_counts(part) for part in counts.split(4096)])
    losses = F.binary_cross_entropy_with_logits(logits, bits, reduction="none").sum(1)
    return losses, int(((logits > 0) != (bits > 0)).any(1).sum())


def _counter_of_channel(op: FiniteCounters) -> Tensor:
    """The number of the counter that each channel belongs to."""
    owners, start = list[Tensor](), 0
    for kind in op.kinds:
        owners += [torch.arange(start, start + op.num_each)] * kind.size
        start += op.num_each
    return torch.cat(owners)


def _norms(weight: Tensor, owner: Tensor) -> Tensor:
    squares = weight.detach().square().sum(0)
    return torch.zeros(int(owner.max()) + 1).index_add(0, owner, squares).sqrt()


def _drop_duplicates(network: CountingNetwork) -> None:
    """Of counters of a kind that count alike, keep the first; the others count nothing."""
    seen = set[tuple[int, ...]]()
    for counter in range(network.settled.shape[1]):
        counted = (counter // network.recipe.num_each, *network.settled[:, counter].tolist())
        if counted in seen:
            network.settled[:, counter] = 0
        seen.add(counted)
