"""The paper's recursions, one set at a time: what every fast path is tested against."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")


def fold_balanced(op: Callable[[T, T], T], rows: Sequence[T], depth: int = 0, place: int = 0) -> T:
    """Fold over a balanced binary tree: cut the rows in two halves, fold both, combine.

    Cuts are even over the whole set: subtree number `place` at `depth` holds the rows from
    ⌊place n / 2^depth⌋ to ⌊(place + 1) n / 2^depth⌋.
    """
    first, last = place * len(rows) >> depth, (place + 1) * len(rows) >> depth
    if last - first == 1:
        return rows[first]
    left = fold_balanced(op, rows, depth + 1, 2 * place)
    return op(left, fold_balanced(op, rows, depth + 1, 2 * place + 1))


def fold_carry(op: Callable[[T, T], T], rows: Sequence[T]) -> T:
    """Pair neighbours and carry an odd last one, until one is left: PyG's tree."""
    while len(rows) > 1:
        paired = [op(a, b) for a, b in zip(rows[::2], rows[1::2], strict=False)]
        rows = [*paired, *rows[len(rows) - len(rows) % 2 :]]
    return rows[0]


def fold_chain(cell: Callable[[S, T], S], initial: S, rows: Sequence[T]) -> S:
    """Fold over a list: a recurrent aggregator."""
    state = initial
    for row in rows:
        state = cell(state, row)
    return state


def associativity_triples(tree: Any) -> list[tuple[Any, Any, Any]]:
    """All (a, b, c) on which a tree of nested pairs invites (a b) c = a (b c).

    The paper's two at ((a b) (c d)) and one at ((a b) c); and, as balanced trees have leaves on
    either side, the mirror image (a (b c)) of the latter.
    """
    match tree:
        case ((a, b), (c, d)):
            here = [(a, b, c), (b, c, d)]
        case ((a, b), c):
            here = [(a, b, c)]
        case (a, (b, c)):
            here = [(a, b, c)]
        case _:
            here = []
    deeper = tree if isinstance(tree, tuple) else ()
    return here + [triple for part in deeper for triple in associativity_triples(part)]
