"""A stream folds to the same tree, whatever its chunks, in O(log n) states."""

from math import log2

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from incremental.operators_for_tests import Failing, Scramble, integers
from trees import normal, seeded, some

from treefold.algebra import Mean, Sum, Variance, map_state, tensors_of
from treefold.fold import Groups, plan_tree, tree_reduce
from treefold.incremental import StreamingFold
from treefold.incremental.counter import cut
from treefold.operators import OPERATORS, BinaryGRU


def fed(fold, rows, sets, sizes):
    """The rows in chunks of these sizes, and the rest."""
    place = 0
    for size in (*sizes, len(rows)):
        fold.feed(rows[place : place + size], sets[place : place + size])
        place += size
    return fold


def at_once(op, rows, sets, num_sets):
    groups = Groups.from_index(sets, num_sets)
    return tree_reduce(op, rows[groups.order], plan_tree(groups.sizes, "carry"))


@some
@given(st.integers(1, 5), st.integers(0, 90), st.lists(st.integers(0, 40), max_size=6), st.data())
def test_the_tree_is_the_same_whatever_the_chunks(num_sets, count, chunks, data):
    piece = data.draw(st.integers(1, 50))
    rows, sets = integers(count, 2), torch.randint(0, num_sets, (count,))
    fold = fed(StreamingFold(Scramble(), num_sets, piece_rows=piece), rows, sets, chunks)
    assert fold.value().equal(at_once(Scramble(), rows, sets, num_sets))
    assert fold.sizes.equal(torch.bincount(sets, minlength=num_sets))


@pytest.mark.parametrize("op", [Sum(), Mean(), Variance()], ids=str)
def test_exact_monoids_stream_bit_for_bit_in_floating_point(op):
    x = torch.randn(200, 3)
    states = []
    for size in (1, 17, 64, 200):
        fold = StreamingFold(op)
        for chunk in x.split(size):
            fold.feed(op.encode(chunk))
        states.append(op.decode(fold.value()))
    assert all(state.equal(states[0]) for state in states)


@pytest.mark.parametrize("name", OPERATORS)
def test_learned_operators_stream_to_rounding(name):
    op = OPERATORS[name](8)
    rows = torch.randn(100, 8)
    whole = at_once(op, rows, torch.zeros(100, dtype=torch.int64), 1).detach()
    for size in (1, 33, 128):
        fold = StreamingFold(op)
        for chunk in rows.split(size):
            fold.feed(chunk)
        torch.testing.assert_close(fold.value(), whole, rtol=1e-4, atol=1e-5)


def test_it_keeps_a_logarithm_of_what_it_has_seen():
    fold = StreamingFold(Sum(), 2)
    for step in range(1, 150):
        fold.feed(integers(5, 2), [0, 0, 0, 0, 1])
        assert fold.num_states <= log2(4 * step) + log2(step) + 2
    assert fold.num_bytes < 1000


@some
@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 70)), max_size=4))
def test_cuts_are_aligned_powers_of_two_that_follow_each_other(ranges):
    starts, sizes = torch.tensor(ranges, dtype=torch.int64).reshape(-1, 2).t()
    cuts = cut(starts, sizes)
    for number, (start, size) in enumerate(ranges):
        mine = cuts.owners == number
        covered = [
            place
            for begin, level in zip(
                cuts.starts[mine].tolist(), cuts.levels[mine].tolist(), strict=True
            )
            for place in range(begin, begin + 2**level)
            if begin % 2**level == 0
        ]
        assert covered == list(range(start, start + size))


def test_witnesses_of_an_exact_monoid_agree_and_those_of_a_learned_one_do_not():
    exact = StreamingFold(Sum(), 2, num_witnesses=3, generator=seeded())
    learned = StreamingFold(BinaryGRU(2).double(), num_witnesses=3, generator=seeded())
    for chunk in normal(50, 2).split(1):  # one at a time, trees must still differ
        exact.feed((1000 * chunk).long(), 1)
        learned.feed(chunk)
    assert exact.stability().absolute.eq(0).all()
    assert exact.stability().absolute.shape == (3, 2)
    assert learned.stability().absolute.min() > 1e-6


def test_without_witnesses_the_stability_is_unknown():
    with pytest.raises(ValueError, match="num_witnesses=4"):
        StreamingFold(Sum()).stability()


def test_nothing_fed_is_the_identity():
    op = BinaryGRU(3)
    assert StreamingFold(op, 2).value().equal(op.identity.detach().expand(2, 3))


@pytest.mark.parametrize(
    ("rows", "sets", "message"),
    [
        (integers(2, 2), 3, "no set 3 among 2"),
        (integers(2, 2), [0, 1, 1], "3 sets for 2 rows"),
        (integers(2, 3), 0, r"shape \[n, 2\]"),
        (torch.zeros(2, 2), 0, "torch.float32"),
    ],
)
def test_a_wrong_chunk_is_refused_and_changes_nothing(rows, sets, message):
    fold = StreamingFold(Sum(), 2)
    fold.feed(integers(3, 2), 0)
    before = fold.value()
    with pytest.raises(ValueError, match=message):
        fold.feed(rows, sets)
    assert fold.value().equal(before)


def test_the_first_rows_must_be_elements_too():
    fold = StreamingFold(BinaryGRU(3))
    with pytest.raises(ValueError, match=r"shape \(1, 5\); expected \[n, \.\.\., 3\]"):
        fold.feed(torch.randn(1, 5))
    fold.feed(torch.randn(1, 3))
    assert fold.sizes.tolist() == [1]


def test_a_chunk_at_which_the_operator_fails_is_not_taken_in():
    op, rows = Failing(), integers(40, 2)
    fold = StreamingFold(op, 2, num_witnesses=1, generator=seeded(), piece_rows=8)
    fold.feed(rows[:5], 0)
    before, states = fold.value(), fold.num_states
    op.calls_left = 9
    with pytest.raises(RuntimeError, match="the operator has failed"):
        fold.feed(rows[5:], 1)
    op.calls_left = 1 << 30
    assert fold.value().equal(before)
    assert (fold.sizes.tolist(), fold.num_states) == ([5, 0], states)
    fold.feed(rows[5:], 0)
    assert fold.value()[:1].equal(at_once(Scramble(), rows, torch.zeros(40).long(), 1))


def test_wrong_numbers_are_refused():
    with pytest.raises(ValueError, match="pieces of 0 rows"):
        StreamingFold(Sum(), piece_rows=0)


@pytest.mark.parametrize("op", [Scramble(), Mean()], ids=["one tensor", "two tensors"])
@pytest.mark.parametrize("stop", [0, 1, 37, 90])
def test_a_stream_goes_on_as_if_it_had_not_stopped(op, stop, tmp_path):
    rows, sets = integers(90, 2), torch.arange(90) % 3
    rows = op.encode(rows.double()) if isinstance(op, Mean) else rows
    first = map_state(lambda part: part[:stop], rows)
    second = map_state(lambda part: part[stop:], rows)
    through = StreamingFold(op, 3)
    through.feed(first, sets[:stop])
    through.save(tmp_path)
    again = StreamingFold.load(tmp_path, op)
    for fold in (through, again):
        fold.feed(second, sets[stop:])
    assert again.sizes.equal(through.sizes)
    assert again.num_bytes == through.num_bytes
    for found, expected in zip(tensors_of(again.value()), tensors_of(through.value()), strict=True):
        assert found.equal(expected)


def test_witnesses_are_saved_too(tmp_path):
    fold = StreamingFold(Scramble(), num_witnesses=2, generator=seeded())
    fold.feed(integers(20, 2))
    fold.save(tmp_path)
    again = StreamingFold.load(tmp_path, Scramble(), seeded(1))
    assert again.stability().largest.equal(fold.stability().largest)


def test_a_stream_is_loaded_with_the_operator_that_made_it_only(tmp_path):
    fold = StreamingFold(BinaryGRU(2))
    fold.feed(torch.randn(5, 2))
    fold.save(tmp_path)
    with pytest.raises(ValueError, match="made by another operator"):
        StreamingFold.load(tmp_path, BinaryGRU(2))
    with pytest.raises(ValueError, match="holds no saved streaming-fold"):
        StreamingFold.load(tmp_path / "nowhere", fold.op)


def test_where_there_are_several_sets_it_must_be_said_which():
    fold = StreamingFold(Sum(), num_sets=3)
    with pytest.raises(ValueError, match="there are 3 sets; give `sets=`"):
        fold.feed(torch.ones(2, 1))
    fold.feed(torch.ones(2, 1), sets=[0, 2])
    assert fold.value().tolist() == [[1.0], [0.0], [1.0]]
