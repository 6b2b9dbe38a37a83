"""The laws of a finite monoid, decided exactly: every pair is looked at, and none is sampled."""

from dataclasses import dataclass
from functools import reduce

import torch

from treefold.algebra import Monoid
from treefold.finite.closure import ROWS, product_rows
from treefold.finite.monoid import FiniteMonoid, Tree, spelled

SHOWN = 5
"""Counterexamples of each kind that are kept."""


@dataclass(frozen=True)
class Laws:
    """Results of `check`: how often each law fails, out of how many, and some of the failures."""

    elements: int
    swaps: int
    """Triples (s, v, w) of an element and two values, s ⊕ v ⊕ w against s ⊕ w ⊕ v."""
    swaps_broken: int
    pairs: int
    """Pairs (a, b), a ⊕ b against a ⊕ v1 ⊕ v2 ... with the values of b; 0 if not asked."""
    pairs_broken: int
    counterexamples: tuple[str, ...] = ()

    @property
    def order_free(self) -> bool:
        """Every list of the same values comes to the same element, in whatever order."""
        return self.swaps_broken == 0

    @property
    def commutative_monoid(self) -> bool:
        """Every tree over the same values comes to the same element: a commutative monoid."""
        return self.order_free and self.pairs > 0 and self.pairs_broken == 0

    def __str__(self) -> str:
        verdict = "a commutative monoid" if self.commutative_monoid else "no commutative monoid"
        if not self.pairs:
            verdict = "free of order" if self.order_free else "dependent on order"
        lines = [
            f"{self.elements} elements: {verdict}",
            f"  lists: {self.swaps_broken} of {self.swaps} triples broken",
            f"  trees: {self.pairs_broken} of {self.pairs} pairs broken",
        ]
        return "\n".join(lines + [f"  {example}" for example in self.counterexamples])


@torch.no_grad()
def check(finite: FiniteMonoid, op: Monoid | None = None) -> Laws:
    """Decide whether a closure is a commutative monoid, from its steps and all its products.

    Two things are enough, and both are necessary. The steps commute: s v w = s w v for every
    element s and all values v, w. And every product walks: a ⊕ b is where a comes to along the
    values of b. Then a product is a word read from the identity, words may be permuted, and
    commutativity and associativity follow.

    Products are taken from the table, or computed by `op` where there is none; without either,
    only lists are decided.
    """
    swaps, swaps_broken, examples = _swaps(finite)
    pairs = pairs_broken = 0
    everything = torch.arange(len(finite))
    for start, rows in product_rows(finite, op, finite.walk):
        pairs += rows.numel()
        walked = finite.walk(everything[start : start + len(rows), None], everything[None])
        bad = torch.nonzero(rows != walked)
        pairs_broken += len(bad)
        for a, b in (bad[: max(0, 2 * SHOWN - len(examples))]).tolist():
            examples.append(_pair(finite, start + a, b, int(rows[a, b])))
    return Laws(len(finite) - 1, swaps, swaps_broken, pairs, pairs_broken, tuple(examples))


def _swaps(finite: FiniteMonoid) -> tuple[int, int, list[str]]:
    broken, examples = 0, list[str]()
    many = len(finite.values)
    height = max(1, 16 * ROWS // many**2)
    for start in range(0, len(finite), height):
        twice = finite.steps[finite.steps[start : start + height].long()]  # [s, v, w]
        bad = torch.nonzero(twice != twice.mT)
        bad = bad[bad[:, 1] < bad[:, 2]]
        broken += len(bad)
        for s, v, w in bad[: max(0, SHOWN - len(examples))].tolist():
            tree = finite.tree(start + s)
            one, other = ((tree, v), w), ((tree, w), v)
            examples.append(
                f"{spelled(one)} is element {int(twice[s, v, w])}, "
                f"but {spelled(other)} is element {int(twice[s, w, v])}"
            )
    return len(finite) * many * (many - 1) // 2, broken, examples


def _pair(finite: FiniteMonoid, a: int, b: int, product: int) -> str:
    one = (finite.tree(a), finite.tree(b))
    listed: Tree = reduce(lambda tree, value: (tree, value), finite.word(b), finite.tree(a))
    end = int(finite.walk(torch.tensor(a), torch.tensor(b)))
    was = f"element {product}" if product >= 0 else "none of the elements"
    return f"{spelled(one)} is {was}, but {spelled(listed)} is element {end}"
