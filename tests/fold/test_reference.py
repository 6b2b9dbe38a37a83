from math import ceil, log2

import pytest
from trees import depths, leaves_of

from treefold.fold.reference import (
    associativity_triples,
    fold_balanced,
    fold_carry,
    fold_chain,
)


def pair(a, b):
    return (a, b)


@pytest.mark.parametrize(
    ("rows", "tree"),
    [
        ("a", "a"),
        ("ab", ("a", "b")),
        ("abc", ("a", ("b", "c"))),
        ("abcd", (("a", "b"), ("c", "d"))),
        ("abcde", (("a", "b"), ("c", ("d", "e")))),
        ("abcdef", (("a", ("b", "c")), ("d", ("e", "f")))),
    ],
)
def test_the_balanced_fold_cuts_in_halves(rows, tree):
    assert fold_balanced(pair, rows) == tree


@pytest.mark.parametrize("n", range(1, 70))
def test_the_balanced_fold_has_minimal_height_and_leaves_at_two_depths(n):
    tree = fold_balanced(pair, range(n))
    assert leaves_of(tree) == list(range(n))
    assert max(depths(tree)) == ceil(log2(n))
    assert max(depths(tree)) - min(depths(tree)) <= 1


@pytest.mark.parametrize(
    ("rows", "tree"),
    [
        ("a", "a"),
        ("abc", (("a", "b"), "c")),
        ("abcde", ((("a", "b"), ("c", "d")), "e")),
        ("abcdef", ((("a", "b"), ("c", "d")), ("e", "f"))),
        ("abcdefg", ((("a", "b"), ("c", "d")), (("e", "f"), "g"))),
    ],
)
def test_the_carry_fold_pairs_neighbours_and_carries_the_odd_one(rows, tree):
    assert fold_carry(pair, list(rows)) == tree


def test_the_chain_fold_starts_from_the_initial_state():
    assert fold_chain(lambda state, row: state + row, "<", "abc") == "<abc"
    assert fold_chain(lambda state, row: state + row, "<", "") == "<"


@pytest.mark.parametrize(
    ("tree", "triples"),
    [
        ("a", []),
        (("a", "b"), []),
        ((("a", "b"), "c"), [("a", "b", "c")]),
        (("a", ("b", "c")), [("a", "b", "c")]),
        ((("a", "b"), ("c", "d")), [("a", "b", "c"), ("b", "c", "d")]),
        (
            ((("a", "b"), "c"), "d"),
            [(("a", "b"), "c", "d"), ("a", "b", "c")],
        ),
        (
            ((("a", "b"), "c"), ("d", "e")),
            [(("a", "b"), "c", "d"), ("c", "d", "e"), ("a", "b", "c")],
        ),
    ],
)
def test_triples_are_the_places_where_a_tree_could_be_bracketed_otherwise(tree, triples):
    assert associativity_triples(tree) == triples
