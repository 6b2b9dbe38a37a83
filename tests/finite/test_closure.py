"""Closures hold what is reachable, neither more nor less, with a history for each element."""

import pytest
import torch
from finite.machines import LAST, ROCK_PAPER_SCISSORS, TASKS, closed
from hypothesis import given
from hypothesis import strategies as st

from treefold.algebra import Endofunctions, KthMinimum, Product, Sum, SumModulo
from treefold.finite import LimitReached, close, closure, leaves
from treefold.finite.codebook import Codebook
from treefold.operators import FiniteSelection


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize(
    ("op", "values", "expected"),
    [
        (SumModulo(6), [2], {0, 2, 4}),
        (SumModulo(6), [3, 2], {0, 1, 2, 3, 4, 5}),
        (KthMinimum(1), [[4], [7]], {4, 7}),
    ],
)
def test_the_elements_are_those_that_values_generate(op, values, expected, trees):
    finite = close(op, torch.tensor(values), trees=trees)
    assert set(finite.codes[1:].flatten().tolist()) == expected
    assert len(finite) == 1 + len(expected)
    assert (finite.table is not None) is trees


@pytest.mark.parametrize("task", TASKS)
def test_each_elements_tree_folds_to_it(task):
    finite = closed(task)

    def fold(tree):
        if isinstance(tree, int):
            return task.encode(torch.tensor([tree]))
        return task.monoid(*map(fold, tree))

    for element in range(1, len(finite)):
        tree = finite.tree(element)
        assert torch.equal(fold(tree)[0], finite.codes[element])
        assert finite.word(element) == leaves(tree)
    assert finite.tree(0) is None


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("trees", [False, True])
def test_products_are_those_of_the_operator(task, trees):
    finite = closed(task, trees=trees)
    a, b = torch.cartesian_prod(torch.arange(1, len(finite)), torch.arange(1, len(finite))).T
    expected = task.monoid(finite.codes[a], finite.codes[b])
    assert torch.equal(finite.codes[finite(a, b)], expected)
    assert torch.equal(finite.number(expected), finite(a, b))
    everything = torch.arange(len(finite))
    assert torch.equal(finite(everything, finite.identity.expand_as(everything)), everything)
    assert torch.equal(finite(finite.identity.expand_as(everything), everything), everything)


def test_trees_may_reach_more_than_lists():
    op = FiniteSelection(5, 8)
    torch.manual_seed(1)
    op.reset_parameters()
    torch.nn.init.normal_(op.own)
    op.anneal(hard=True)
    rows = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    lists, trees = close(op.eval(), rows, trees=False), close(op, rows)
    assert torch.equal(lists.codes, trees.codes[: len(lists)])
    a, b = torch.cartesian_prod(torch.arange(1, len(trees)), torch.arange(1, len(trees))).T
    assert torch.equal(trees.codes[trees(a, b)], op(trees.codes[a], trees.codes[b]))


def test_an_operator_that_does_not_close_stops_at_the_limit():
    with pytest.raises(LimitReached, match="the limit is 50") as stopped:
        close(Sum(), torch.tensor([1]), limit=50)
    assert len(stopped.value.codes) > 50
    with pytest.raises(LimitReached, match="2 states are reachable"):
        close(LAST, torch.tensor([0, 1]), limit=1)


def test_progress_is_reported_until_nothing_is_left():
    seen = []
    close(SumModulo(50), torch.tensor([1]), watch=lambda known, left: seen.append((known, left)))
    assert seen[-1] == (51, 0)


def test_states_may_be_tuples_of_tensors():
    op = Product(SumModulo(3), SumModulo(2))
    finite = close(op, (torch.tensor([1]), torch.tensor([1])))
    assert len(finite) == 1 + 6
    assert [part.tolist() for part in finite.codes] == [
        [0, 1, 2, 0, 1, 2, 0],
        [0, 1, 0, 1, 0, 1, 0],
    ]


def test_small_batches_find_the_same(monkeypatch):
    expected = closed(TASKS[0])
    monkeypatch.setattr(closure, "ROWS", 7)
    found = closed(TASKS[0])
    assert set(map(tuple, found.codes.tolist())) == set(map(tuple, expected.codes.tolist()))


def test_beyond_the_largest_table_there_are_steps_alone(monkeypatch):
    monkeypatch.setattr(closure, "LARGEST_TABLE", 4)
    finite, small = closed(TASKS[0]), closed(TASKS[1])
    assert finite.table is None
    assert small.table is None
    assert "by steps" in repr(finite)


def test_a_cells_transition_monoid_is_closed_like_any_other():
    rotate, swap = torch.tensor([1, 2, 0]), torch.tensor([1, 0, 2])
    symmetric = close(Endofunctions(3), torch.stack([rotate, swap]))
    assert len(symmetric) == 1 + 6  # all permutations, and the formal identity


@given(st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([-0.0, 0.0, 0.5, 1e300]))))
def test_a_codebook_numbers_distinct_rows_in_order(rows):
    ints = torch.tensor([row[0] for row in rows], dtype=torch.int16)
    floats = torch.tensor([row[1] for row in rows], dtype=torch.float64)
    book = Codebook((ints, floats.view(-1, 1)))
    distinct = list(dict.fromkeys((a, b + 0.0) for a, b in rows))
    assert len(book) == len(distinct)
    found = book.find((ints, floats.view(-1, 1)))
    assert found.tolist() == [distinct.index((a, b + 0.0)) for a, b in rows]
    strange = (torch.tensor([77], dtype=torch.int16), torch.zeros(1, 1, dtype=torch.float64))
    assert book.find(strange).tolist() == [-1]


def test_no_generators_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        close(ROCK_PAPER_SCISSORS, torch.tensor([], dtype=torch.int64))
