"""Functions under composition: list folds are reductions of them."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from treefold.algebra import ASSOCIATIVITY, COMMUTATIVITY, IDENTITY, SWAP, Endofunctions
from treefold.fold import Groups, chain_reduce, plan_tree, tree_reduce


def table_cell(table):
    """A recurrent cell on numbered states: `table[state, input]` is the next state."""
    table = torch.tensor(table)
    return lambda state, x: table[state, x]


TABLES = st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=4, max_size=4)
COUNTING = [[(state + x) % 4 for x in range(3)] for state in range(4)]
LAST = [list(range(3)) for _ in range(4)]


@given(TABLES, st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=4))
def test_a_list_fold_is_a_reduction_of_functions_over_any_tree(table, lists):
    cell = table_cell(table)
    monoid, functions = Endofunctions.of(cell, 4, torch.arange(3))
    sizes = torch.tensor([len(row) for row in lists])
    x = torch.tensor([value for row in lists for value in row], dtype=torch.int64)
    start = torch.tensor(2)
    by_list = chain_reduce(cell, x, Groups.from_sizes(sizes), start)
    for bracketing in ("balanced", "random"):
        folded = tree_reduce(monoid, functions[x], plan_tree(sizes, bracketing))
        assert torch.equal(monoid.apply(folded, start.expand(len(lists))), by_list)


@given(TABLES)
def test_functions_commute_exactly_where_the_swap_law_holds(table):
    cell = table_cell(table)
    monoid, functions = Endofunctions.of(cell, 4, torch.arange(3))
    states, x, y = torch.cartesian_prod(torch.arange(4), torch.arange(3), torch.arange(3)).T
    swapped = SWAP.violation(cell, states, x, y).absolute.view(4, 3, 3) == 0
    f, g = functions[x[:9]], functions[y[:9]]
    commute = (monoid(f, g) == monoid(g, f)).all(1)
    assert torch.equal(swapped.all(0).flatten(), commute)


def test_counting_commutes_and_remembering_the_last_does_not():
    for table, commutes in ((COUNTING, True), (LAST, False)):
        monoid, functions = Endofunctions.of(table_cell(table), 4, torch.arange(3))
        pairs = torch.tensor(list(itertools.product(range(3), repeat=2)))
        law = COMMUTATIVITY.violation(monoid, functions[pairs[:, 0]], functions[pairs[:, 1]])
        assert bool((law.absolute == 0).all()) is commutes


@given(st.lists(st.lists(st.integers(0, 4), min_size=5, max_size=5), min_size=3, max_size=3))
def test_composition_is_associative_with_the_function_that_moves_nothing(rows):
    monoid, (f, g, h) = Endofunctions(5), torch.tensor(rows)[:, None]
    ASSOCIATIVITY.assert_holds(monoid, f, g, h)
    IDENTITY.assert_holds(monoid, f)


def test_first_comes_the_left_one():
    monoid = Endofunctions(3)
    to_one, shift = torch.tensor([1, 1, 1]), torch.tensor([1, 2, 0])
    assert monoid(to_one, shift).tolist() == [2, 2, 2]
    assert monoid(shift, to_one).tolist() == [1, 1, 1]


def test_a_cell_that_leaves_its_states_is_refused():
    with pytest.raises(ValueError, match="leaves the states 0 to 3"):
        Endofunctions.of(lambda state, x: state + x, 4, torch.arange(3))
    with pytest.raises(ValueError, match="expected at least 1"):
        Endofunctions(0)
