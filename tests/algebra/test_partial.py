"""Nothing merged with x is x, bit for bit, for every operator, its vector e aside."""

import pytest
import torch
from algebra.monoid_cases import Operator
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from treefold.algebra import (
    FORMAL_IDENTITY,
    IDENTITY,
    Max,
    Mean,
    Multisets,
    Partial,
    Sum,
    map_state,
)
from treefold.operators import OPERATORS, BinaryMLP

CHANNELS = 4
# Not numbers, infinities and minus zero: bits, not values, are compared.
NUMBERS = st.floats(width=32)
ROWS = st.lists(st.lists(NUMBERS, min_size=CHANNELS, max_size=CHANNELS), min_size=1, max_size=6)
some = settings(deadline=None, max_examples=60)


def learned():
    """A learned operator whose e is far from an identity."""
    torch.manual_seed(0)
    op = BinaryMLP(CHANNELS)
    nn.init.constant_(op.identity, 7.0)
    return op


def bits(rows):
    return rows.detach().contiguous().view(torch.int32)


@some
@given(ROWS)
def test_nothing_merged_with_x_is_x_bit_for_bit(rows):
    op, x = learned(), torch.tensor(rows)
    held, nothing = Partial.of(x), Partial.nothing(len(x), x)
    for merged in (held.merged(nothing, op), nothing.merged(held, op)):
        assert bits(merged.value(op)).equal(bits(x))
        assert not merged.is_empty.any()
    assert (
        IDENTITY.violation(op, torch.ones(1, CHANNELS)).relative > 0.5
    )  # as an element, e is none


@pytest.mark.parametrize("name", OPERATORS)
def test_the_formal_identity_is_exact_for_every_learned_operator(name):
    op = OPERATORS[name](CHANNELS)
    x = 30 * torch.randn(50, CHANNELS)
    assert FORMAL_IDENTITY.violation(op, x).absolute.eq(0).all()


def test_nothing_and_nothing_are_nothing_and_give_e_in_the_end():
    op, like = learned(), torch.zeros(1, CHANNELS)
    merged = Partial.nothing(3, like).merged(Partial.nothing(3, like), op)
    assert merged.is_empty.all()
    assert merged.value(op).equal(op.identity.expand(3, CHANNELS))


@some
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_the_operator_sees_only_what_both_hold(which):
    op, seen = learned(), []
    mine, theirs = torch.tensor(which).T
    a, b = torch.randn(2, len(which), CHANNELS)

    def watched(x, y):
        seen.append((x, y))
        return op(x, y)

    merged = Partial(a, mine).merged(Partial(b, theirs), watched)
    both = ~mine & ~theirs
    if both.any():
        ((x, y),) = seen
        assert x.equal(a[both])
        assert y.equal(b[both])
        assert merged.states[both].equal(op(a[both], b[both]))
    else:
        assert not seen
    assert bits(merged.states[mine & ~theirs]).equal(bits(b[mine & ~theirs]))
    assert bits(merged.states[theirs & ~mine]).equal(bits(a[theirs & ~mine]))
    assert merged.is_empty.equal(mine & theirs)


def test_states_may_be_tuples_and_of_any_type():
    op = Mean()
    held = Partial(op.encode(torch.tensor([2.0, 4.0])), torch.tensor([False, True]))
    other = Partial(op.encode(torch.tensor([6.0, 8.0])), torch.tensor([False, False]))
    assert op.decode(held.merged(other, op).value(op)).tolist() == [4.0, 8.0]
    integers = torch.tensor([3, -5])
    empty = Partial.nothing(2, integers)
    assert empty.value(Max()).tolist() == [torch.iinfo(torch.int64).min] * 2
    assert empty.merged(Partial.of(integers), Sum()).value(Sum()).equal(integers)
    halves = torch.tensor([0.5, 0.25], dtype=torch.bfloat16)
    assert empty.map(torch.Tensor.bfloat16).merged(Partial.of(halves), Sum()).states.equal(halves)


def test_gradients_go_to_what_was_merged_and_to_e_from_what_is_empty_alone():
    op = learned()
    x = torch.randn(3, CHANNELS, requires_grad=True)
    held = Partial(x, torch.tensor([False, True, True]))
    other = Partial(torch.full((3, CHANNELS), torch.nan), torch.tensor([True, True, True]))
    held.merged(other, op).value(op).sum().backward()
    assert x.grad.tolist() == [[1.0] * CHANNELS, [0.0] * CHANNELS, [0.0] * CHANNELS]
    assert op.identity.grad.tolist() == [2.0] * CHANNELS


def test_folds_of_multisets_put_no_identity_through_the_operator():
    def careful(a, b):
        assert not (a.eq(7.0) | b.eq(7.0)).any()
        return a + b

    op = Operator(careful, torch.tensor(7.0))
    members = tuple(torch.tensor([[1.0] * 3, [10.0] * 3]))
    assert Multisets(members, torch.tensor([0, 1, 2])).fold(op).tolist() == [7.0, 1.0, 11.0]


def test_what_does_not_say_which_are_empty_is_refused():
    for wrong in (torch.zeros(2, dtype=torch.bool), torch.zeros(3)):
        with pytest.raises(ValueError, match="expected a boolean for each of 3 states"):
            Partial(torch.zeros(3, 2), wrong)
    with pytest.raises(ValueError, match="states differ in structure"):
        Partial.of(torch.zeros(3)).merged(Partial.of((torch.zeros(3),)), Sum())


def test_it_maps_as_its_states_do():
    held = Partial((torch.ones(2), torch.ones(2)), torch.tensor([True, False]))
    doubled = held.map(lambda state: map_state(lambda part: 2 * part, state))
    assert [part.tolist() for part in doubled.states] == [[2.0, 2.0], [2.0, 2.0]]
    assert doubled.is_empty.tolist() == [True, False]
