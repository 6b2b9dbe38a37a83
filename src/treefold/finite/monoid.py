"""Finite monoids as data: numbered elements, how each came about, and tables of products."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from treefold.algebra import State, take, tensors_of
from treefold.finite.codebook import Codebook
from treefold.saving import Classes, Config, Saved

Tree: TypeAlias = "int | tuple[Tree, Tree] | None"
"""A value, two trees that are merged, or nothing at all (the identity)."""

IDENTITY = 0
"""The number of the identity in every finite monoid."""


@dataclass(frozen=True, eq=False)
class FiniteMonoid(Saved):
    """Elements 0, ..., n - 1 and their products by look-up; element 0 is the identity.

    A `Monoid` whose states are integer tensors of any shape: it folds, streams and updates like any
    other, with answers that are equal to the bit in whatever order sets are merged. `encode` gives
    the element for each value; `decode` the answers, if there are any.

    With a `table`, products are entries of it. Without, `a ⊕ b` walks from a along the word of b,
    step by step, which is the same in every monoid; that an operator *is* one, `certify` shows.
    """

    codes: State
    """The state of the operator that each element stands for, `[elements, *feature]`."""
    values: Tensor
    """The element for each value (generator), `[values]`."""
    steps: Tensor
    """The element that a ⊕ v is, `[elements, values]`."""
    left: Tensor
    """Each element first came about as left ⊕ right, or, where left is -1, ..."""
    right: Tensor
    """... as the value called right; of the identity, both are -1."""
    table: Tensor | None = None
    """All products, `[elements, elements]`."""
    answers: Tensor | None = None
    """The answer of each element, `[elements, *answer]`."""

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        by = "steps" if self.table is None else "table"
        return f"FiniteMonoid({len(self)} elements, {len(self.values)} values, by {by})"

    @property
    def identity(self) -> Tensor:
        """Element 0."""
        return torch.tensor(IDENTITY)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Look up the products of two stacks of elements."""
        if self.table is not None:
            return self.table[a.long(), b.long()].to(a.dtype)
        return self.walk(a, b)

    def walk(self, a: Tensor, b: Tensor) -> Tensor:
        """The states from `a` along the values of `b`, step by step."""
        a, b = torch.broadcast_tensors(a, b)
        at = a.long()
        for letter in self._words.T:
            step = letter[b.long()]
            at = torch.where(step < 0, at, self.steps[at, step.clamp(min=0)].long())
        return at.to(a.dtype)

    def feed(self, states: Tensor, sets: Tensor, values: Tensor) -> None:
        """Add values to sets, in place: `states` has an element for each set, 0 at first.

        A set that occurs more than once gets its values one after the other.
        """
        order = sets.argsort(stable=True)
        sets, values = sets[order], values[order].long()
        turn = torch.arange(len(sets)) - torch.searchsorted(sets, sets)
        for number in range(int(turn.max()) + 1 if len(sets) else 0):
            now = turn == number
            at = sets[now]
            states[at] = self.steps[states[at].long(), values[now]].to(states.dtype)

    def encode(self, x: Tensor) -> Tensor:
        """The elements that stand for values."""
        return self.values[x.long()]

    def decode(self, state: Tensor) -> Tensor:
        """The answers of elements; the elements themselves where nobody has given answers."""
        return state if self.answers is None else self.answers[state.long()]

    def answering(self, decode: Callable[[State], Tensor]) -> "FiniteMonoid":
        """The same monoid with the answers that `decode` reads from the states of elements."""
        answers = decode(take(self.codes, slice(1, None)))
        answers = torch.cat([torch.zeros_like(answers[:1]), answers])
        return dataclasses.replace(self, answers=answers)

    def number(self, states: State) -> Tensor:
        """The elements that stand for states of the operator; -1 for states that are none."""
        found = self._book.find(states)
        return torch.where(found < 0, -1, found + 1)

    def tree(self, element: int) -> Tree:
        """The first derivation of an element: values, and trees of them."""
        left, right = int(self.left[element]), int(self.right[element])
        if left < 0:
            return right if right >= 0 else None
        return self.tree(left), self.tree(right)

    def word(self, element: int) -> list[int]:
        """The values in the tree of an element, from left to right."""
        return leaves(self.tree(element))

    def saved(self) -> tuple[Config, dict[str, Tensor]]:
        """The arguments of `save_pretrained`."""
        parts = tensors_of(self.codes)
        tensors = {f"codes.{number}": part for number, part in enumerate(parts)}
        tensors |= {name: each for name in _TENSORS if (each := getattr(self, name)) is not None}
        return {"class": "FiniteMonoid", "tuple": isinstance(self.codes, tuple)}, tensors

    @classmethod
    def restored(
        cls, config: Config, tensors: dict[str, Tensor], classes: Classes
    ) -> "FiniteMonoid":
        """The monoid that `saved` has described."""
        codes = [tensors[name] for name in sorted(tensors) if name[:6] == "codes."]
        named = {name: tensors[name] for name in _TENSORS if name in tensors}
        return cls(tuple(codes) if config["tuple"] else codes[0], **named)

    @cached_property
    def _book(self) -> Codebook:
        return Codebook(take(self.codes, slice(1, None)))

    @cached_property
    def _words(self) -> Tensor:
        """The word of each element, filled up with -1: `[elements, longest]`."""
        words = [self.word(element) for element in range(len(self))]
        longest = max(map(len, words))
        return torch.tensor([word + [-1] * (longest - len(word)) for word in words])


_TENSORS = ("values", "steps", "left", "right", "table", "answers")


def leaves(tree: Tree) -> list[int]:
    """The values of a tree from left to right."""
    if tree is None:
        return []
    return leaves(tree[0]) + leaves(tree[1]) if isinstance(tree, tuple) else [tree]


def spelled(tree: Tree) -> str:
    """A tree as a person reads it: `((3 ⊕ 5) ⊕ 7)`."""
    if tree is None:
        return "nothing"
    if isinstance(tree, tuple):
        return f"({spelled(tree[0])} ⊕ {spelled(tree[1])})"
    return str(tree)


def dense_type(num_elements: int) -> torch.dtype:
    """The smallest integer type for a table over so many elements."""
    return torch.int16 if num_elements <= 1 << 15 else torch.int32
