"""Counterexamples that teach: trees over one multiset that end in different codes should agree.

Agreement needs no labels, but it must not undo labels: a code that training sets come to
has their answer, and two codes with different answers are not taught to agree.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from treefold.finite import LimitReached, close
from treefold.lab.networks import SetNetwork
from treefold.lab.tasks import SetData
from treefold.operators import FiniteSelection

TRIED = 1 << 15
"""Triples of a code and two elements that are tried at once."""
MOST_CODES = 1 << 13
"""The largest closure; of one that goes beyond it, the codes that were known by then are taken."""
NO_LABEL, TWO_LABELS = -1, -2


@dataclass(frozen=True)
class Disagreements:
    """Triples (s, v, w) of a code and two values: s ⊕ v ⊕ w is not s ⊕ w ⊕ v, or s ⊕ (v ⊕ w)."""

    codes: Tensor
    values: Tensor
    """`[triples, 2]`."""
    to_swap: Tensor
    """True for those of the first kind."""
    reachable: int
    """The codes that were known when these were looked for."""
    share: float
    """The share of all tried pairs of trees that disagree."""

    def __len__(self) -> int:
        return len(self.codes)

    def loss(self, op: FiniteSelection, table: Tensor, count: int) -> Tensor:
        """The mean squared difference of both trees, of so many triples drawn at random."""
        if not len(self):
            return table.sum() * 0.0
        chosen = torch.randint(len(self), (count,))
        s, (v, w) = self.codes[chosen], op.code(table)[self.values[chosen]].unbind(1)
        swap = self.to_swap[chosen, None]
        other = op(torch.where(swap, op(s, w), s), torch.where(swap, v, op(v, w)))
        loss: Tensor = (op(op(s, v), w) - other).square().mean()
        return loss


@torch.no_grad()
def find_disagreements(network: SetNetwork, op: FiniteSelection, data: SetData) -> Disagreements:
    """Close the codes of all values, try random triples, and keep those that may be taught."""
    was_training = network.training
    network.eval()
    table = op.code(network.table())
    codes = reachable(op, table)
    s = codes[torch.randint(len(codes), (TRIED,))]
    values = torch.randint(len(table), (TRIED, 2))
    v, w = table[values].unbind(1)
    first = op(op(s, v), w)
    labels = Labels(op, table, data)
    known, kept = labels.of(first), list[Tensor]()
    many = 0
    for other in (op(op(s, w), v), op(s, op(v, w))):
        differ, answer = (first != other).any(1), labels.of(other)
        many += int(differ.sum())
        kept.append(differ & ((known == answer) | (known < 0) | (answer < 0)))
    places = [keep.nonzero().squeeze(1) for keep in kept]
    both = torch.cat(places)
    network.train(was_training)
    return Disagreements(
        s[both],
        values[both],
        torch.arange(len(both)) < len(places[0]),
        len(codes),
        many / (2 * TRIED),
    )


def reachable(op: FiniteSelection, table: Tensor) -> Tensor:
    """The codes that lists come to, or as many of them as there is room for."""
    try:
        return cast(Tensor, close(op, table, MOST_CODES, trees=False).codes)[1:]
    except LimitReached as reached:
        return cast(Tensor, reached.codes)


class Labels:
    """The answers of the codes that training sets come to, folded as lists."""

    def __init__(self, op: FiniteSelection, table: Tensor, data: SetData) -> None:
        first = data.sizes.cumsum(0) - data.sizes
        states = table[data.values[first]]
        for place in range(1, int(data.sizes.max())):
            longer = (data.sizes > place).nonzero().squeeze(1)
            states[longer] = op(states[longer], table[data.values[first[longer] + place]])
        self.codes, number = states.unique(dim=0, return_inverse=True)
        blank = torch.full((len(self.codes),), NO_LABEL)
        least, most = (
            blank.scatter_reduce(0, number, data.answers, how, include_self=False)
            for how in ("amin", "amax")
        )
        self.answers = least.where(least == most, TWO_LABELS)

    def of(self, codes: Tensor) -> Tensor:
        """The answer of each code; a negative number where labels have none, or contradict."""
        known = len(self.codes)
        _, number = torch.cat([self.codes, codes]).unique(dim=0, return_inverse=True)
        answers = torch.full((int(number.max()) + 1,), NO_LABEL)
        answers[number[:known]] = self.answers
        return answers[number[known:]]
