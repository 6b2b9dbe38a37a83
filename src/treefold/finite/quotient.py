"""Minimisation: elements that behave alike become one, as states of automata do."""

from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.algebra import take
from treefold.finite.codebook import Codebook, first_places
from treefold.finite.monoid import IDENTITY, FiniteMonoid, dense_type


@dataclass(frozen=True, eq=False)
class Quotient:
    """A smaller monoid, and the element of it that each element of the larger one becomes."""

    monoid: FiniteMonoid
    classes: Tensor
    """`[elements of the larger]`."""


@torch.no_grad()
def minimize(finite: FiniteMonoid, answers: Tensor | None = None) -> Quotient:
    """Merge elements that no continuation distinguishes: a ⊕ v... answers as b ⊕ v... does.

    `answers` are `[elements, *answer]`, by default the monoid's own. The identity stays apart: an
    empty set may answer what no other set does. Its answer is not looked at.
    """
    answers = finite.answers if answers is None else answers
    if answers is None:
        raise ValueError("without answers all elements are alike; give `answers`, one per element")
    if len(answers) != len(finite):
        raise ValueError(f"there are {len(answers)} answers for {len(finite)} elements")
    classes = alike(finite, answers)
    num_classes = int(classes.max()) + 1
    # Of each class its first element, which is the one with the shortest history.
    first = first_places(classes, num_classes)
    place = first.argsort().argsort()
    classes, first = place[classes], first.sort().values
    left, right = finite.left[first], finite.right[first]
    made = left >= 0
    table = None
    if finite.table is not None:
        products = classes[finite.table.long()]
        table = products[first][:, first]
        if not torch.equal(table[classes][:, classes], products):
            raise ValueError("products of alike elements differ: no commutative monoid, see check")
        table = table.to(dense_type(num_classes))
    smaller = FiniteMonoid(
        take(finite.codes, first),
        classes[finite.values],
        classes[finite.steps.long()][first].to(torch.int32),
        torch.where(made, classes[left.clamp(min=0)], left),
        torch.where(made, classes[right.clamp(min=0)], right),
        table,
        answers[first],
    )
    return Quotient(smaller, classes)


def alike(finite: FiniteMonoid, answers: Tensor) -> Tensor:
    """The coarsest classes that agree on answers and that every value respects (Moore)."""
    flat = answers.reshape(len(answers), -1).to(torch.int64).clone()
    flat[IDENTITY] = 0
    apart = (torch.arange(len(flat)) == IDENTITY).long()
    classes = _numbered(torch.cat([apart[:, None], flat], 1))
    while True:
        finer = _numbered(torch.cat([classes[:, None], classes[finite.steps.long()]], 1))
        if int(finer.max()) == int(classes.max()):
            return classes
        classes = finer


def _numbered(rows: Tensor) -> Tensor:
    return Codebook(rows).find(rows)
