"""`check` decides laws exactly: it finds what is broken, and nothing that is not."""

import itertools

import pytest
import torch
from finite.machines import LAST, ROCK_PAPER_SCISSORS, TASKS, Spoiled, Table, closed
from hypothesis import given
from hypothesis import strategies as st

from treefold.finite import FiniteMonoid, check, close, closure


@pytest.mark.parametrize("task", TASKS)
def test_exact_monoids_obey_every_law(task):
    laws = check(closed(task))
    assert laws.commutative_monoid
    assert laws.pairs == (laws.elements + 1) ** 2
    assert "a commutative monoid" in str(laws)


def by_brute_force(finite):
    """Commutativity and associativity of the whole table, triple by triple."""
    table = finite.table.long()
    everything = range(len(finite))
    commutes = torch.equal(table, table.T)
    associates = all(
        table[table[a, b], c] == table[a, table[b, c]]
        for a, b, c in itertools.product(everything, repeat=3)
    )
    return commutes and associates


SQUARES = st.integers(1, 4).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(0, n - 1), min_size=n, max_size=n), min_size=n, max_size=n
    )
)


@given(SQUARES)
def test_the_verdict_is_that_of_brute_force_for_any_table(table):
    finite = close(Table(table), torch.arange(len(table)))
    assert check(finite).commutative_monoid is by_brute_force(finite)


@given(SQUARES)
def test_commutative_tables_too_are_judged_as_by_brute_force(table):
    square = torch.tensor(table)
    upper = square.triu() + square.triu(1).T
    finite = close(Table(upper.tolist()), torch.arange(len(table)))
    assert check(finite).commutative_monoid is by_brute_force(finite)


def test_an_operator_that_is_commutative_but_not_associative_is_caught_by_a_list():
    laws = check(close(ROCK_PAPER_SCISSORS, torch.arange(3)))
    assert not laws.order_free
    assert "((0 ⊕ 1) ⊕ 2) is element 3, but ((0 ⊕ 2) ⊕ 1) is element 2" in laws.counterexamples


def test_a_product_that_no_list_asks_for_is_caught_by_a_tree():
    finite = close(Spoiled(), torch.tensor([1]))
    laws = check(finite)
    assert laws.order_free
    assert (laws.commutative_monoid, laws.pairs_broken) == (False, 1)
    assert laws.counterexamples[0].startswith("(((0 ⊕ 0) ⊕ 0) ⊕ ((0 ⊕ 0) ⊕ 0)) is element 5")


def test_remembering_the_last_value_depends_on_order():
    laws = check(close(LAST, torch.arange(2)))
    assert laws.swaps_broken == laws.elements + 1  # in every state, with the identity
    assert "no commutative monoid" in str(laws)


def test_without_a_table_products_come_from_the_operator(monkeypatch):
    monkeypatch.setattr(closure, "LARGEST_TABLE", 0)
    finite = close(Spoiled(), torch.tensor([1]))
    assert check(finite).pairs == 0
    assert "free of order" in str(check(finite))
    assert check(finite, Spoiled()).pairs_broken == 1


def test_lists_alone_may_not_know_all_that_trees_reach():
    escaping = Table([[1, 1, 1], [1, 2, 2], [1, 2, 0]])
    finite = close(escaping, torch.tensor([0]), trees=False)
    assert len(finite) == 3
    assert isinstance(finite, FiniteMonoid)
    assert "none of the elements" in str(check(finite, escaping))
