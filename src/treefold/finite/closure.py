"""Closure: every state that an operator can reach from given elements, level by level."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import Tensor

from treefold.algebra import (
    Monoid,
    State,
    identity_like,
    map_state,
    stack_size,
    take,
    tensors_of,
)
from treefold.finite.codebook import Codebook, equal, first_places, rows_of
from treefold.finite.monoid import FiniteMonoid, dense_type

ROWS = 1 << 16
"""Products in one call of the operator, or fewer ..."""
ENTRIES = 1 << 25
"""... if these would be more numbers."""
BYTES = 1 << 20
"""The number of states that are compared at once; they should stay in a cache."""
LARGEST_TABLE = 1 << 13
"""Elements of the largest monoid whose table is kept: 128 MB of 16-bit numbers."""

Guess = Callable[[Tensor, Tensor], Tensor]
"""Probable products of elements; wrong ones cost time, and nothing else."""
Watch = Callable[[int, int], None]
"""Called with how many elements are known, and how many still have to be multiplied."""


class LimitReached(RuntimeError):
    """More states than the limit; `codes` are those that were known by then."""

    def __init__(self, codes: State, limit: int) -> None:
        super().__init__(
            f"{stack_size(codes)} states are reachable and more may be: the limit is {limit}. "
            "Either the operator does not close, or it needs a larger limit"
        )
        self.codes, self.limit = codes, limit


@torch.no_grad()
def close(
    op: Monoid,
    generators: State,
    limit: int = 60_000,
    *,
    trees: bool = True,
    watch: Watch = lambda known, left: None,
) -> FiniteMonoid:
    """Find every state reachable from the rows of `generators`, or raise `LimitReached`.

    First from each state by one more generator, as lists reach them. With `trees`, then by all
    products of two reachable states, as trees reach them: these are the same states if `op` is
    associative, and every pair is looked at to know it. The table of products is kept for up to
    `LARGEST_TABLE` elements.

    The identity of `op` is adjoined formally, as folds do: nothing is merged with it.
    """
    coded = cast(Callable[[State], State], getattr(op, "code", lambda x: x))(generators)
    if stack_size(coded) < 1:
        raise ValueError("there are no generators; give at least one row")
    search = _Search(op, coded, limit, watch)
    search.by_values()
    if trees:
        search.by_pairs()
    return search.found(trees)


class _Search:
    def __init__(self, op: Monoid, values: State, limit: int, watch: Watch) -> None:
        self.op, self.limit, self.watch = op, limit, watch
        self.book = Codebook(values)
        self.values = 1 + self.book.find(values)
        first = first_places(self.values - 1, len(self.book))
        self.left = [torch.full((1 + len(first),), -1)]
        self.right = [torch.cat([torch.tensor([-1]), first])]
        self.steps: list[Tensor] = [self.values[None]]
        self._require_room()

    def __len__(self) -> int:
        return 1 + len(self.book)

    def by_values(self) -> None:
        """Until every known element times every value is known."""
        done = sum(map(len, self.steps))
        many = len(self.values)
        while done < len(self):
            stop = min(len(self), done + max(1, rows_at_once(self.book.states) // many))
            left = torch.arange(done, stop).repeat_interleave(many)
            products = self._multiply(left, self.values.repeat(stop - done))
            self.steps.append(products.view(-1, many))
            done = stop
            self.watch(len(self), len(self) - done)

    def by_pairs(self) -> None:
        """Until every product of two known elements is known, and one more value as well."""
        done = 1
        while done < len(self):
            stop = min(len(self), done + max(1, rows_at_once(self.book.states) // len(self)))
            # All products of the rows [done, stop) with one another and with all before them.
            left = torch.arange(done, stop).repeat_interleave(stop - 1)
            right = torch.arange(1, stop).repeat(stop - done)
            self._multiply(left, right)
            self._multiply(right, left)
            self.by_values()
            done = stop
            self.watch(len(self), len(self) - done)

    def found(self, trees: bool) -> FiniteMonoid:
        """The monoid, with a table if it is small."""
        identity = map_state(lambda part: part[:1], identity_like(self.op, self.book.states))
        elements = FiniteMonoid(
            map_state(lambda *parts: torch.cat(parts), identity, self.book.states),
            self.values,
            torch.cat(self.steps).to(torch.int32),
            torch.cat(self.left),
            torch.cat(self.right),
        )
        if not trees or len(elements) > LARGEST_TABLE:
            return elements
        entry = dense_type(len(elements))
        rows = [rows.to(entry) for _, rows in product_rows(elements, self.op)]
        return dataclasses.replace(elements, table=torch.cat(rows))

    def _multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """The numbers of products, which are added to the book where they are new."""
        states = self.book.states
        products = self.op(rows_of(states, left - 1), rows_of(states, right - 1))
        numbers, first = self.book.add(products)
        self.left.append(left[first])
        self.right.append(right[first])
        self._require_room()
        return 1 + numbers

    def _require_room(self) -> None:
        if len(self.book) > self.limit:
            raise LimitReached(self.book.states, self.limit)


def rows_at_once(states: State) -> int:
    """Products of such states in one call of the operator: memory stays bounded."""
    width = sum(part[:1].numel() for part in tensors_of(states))
    return max(1, min(ROWS, ENTRIES // max(1, width)))


def product_rows(
    finite: FiniteMonoid, op: Monoid | None, guess: Guess | None = None
) -> Iterator[tuple[int, Tensor]]:
    """All products, some rows at a time with the number of the first; none without table or `op`.

    A product that is no element is -1. A `guess` at products spares looking them up: to compare
    states is ten times faster. What was guessed wrongly is looked up.
    """
    everything = torch.arange(len(finite))
    if finite.table is not None:
        for rows in everything.split(max(1, 64 * ROWS // len(finite))):
            yield int(rows[0]), finite.table[rows].to(torch.int64)
        return
    if op is None:
        return
    yield 0, everything[None]
    width = sum(part[:1].nbytes for part in tensors_of(finite.codes))
    for row in everything[1:]:
        parts = [row[None]]
        for right in everything[1:].split(max(1, BYTES // width)):
            rights = take(finite.codes, slice(int(right[0]), int(right[-1]) + 1))
            products = op(rows_of(finite.codes, row.expand(len(right))), rights)
            guessed = right if guess is None else guess(row, right)
            likely = guess is not None and equal(products, rows_of(finite.codes, guessed))
            parts.append(guessed if likely else finite.number(products))
        yield int(row), torch.cat(parts)[None]
