import math
from types import SimpleNamespace

import pytest
import torch
from algebra.monoid_cases import Operator

from treefold.algebra import (
    Max,
    Sum,
    describe,
    extremes,
    identity_like,
    map_state,
    require_monoid,
    stack_size,
    take,
    tensors_of,
)

NESTED = (torch.tensor([1, 2]), (torch.tensor([3.0, 4.0]),))


def test_a_function_maps_over_every_tensor_of_nested_states():
    first, (second,) = map_state(torch.add, NESTED, NESTED)
    assert first.tolist() == [2, 4]
    assert second.tolist() == [6.0, 8.0]
    assert [tensor.tolist() for tensor in tensors_of(NESTED)] == [[1, 2], [3.0, 4.0]]


@pytest.mark.parametrize("other", [NESTED[0], (NESTED[0],), (NESTED[0], NESTED[0])], ids=describe)
def test_states_of_different_structure_are_refused_in_either_order(other):
    for states in [(NESTED, other), (other, NESTED)]:
        with pytest.raises(ValueError, match="states differ in structure"):
            map_state(torch.add, *states)


def test_a_structure_is_described_in_words():
    assert describe(NESTED) == "(Tensor, (Tensor))"


def test_the_size_of_a_stack_is_the_first_axis_of_all_its_tensors():
    assert stack_size(NESTED) == 2
    assert stack_size(torch.zeros(0, 3)) == 0
    with pytest.raises(ValueError, match=r"\[\(2,\), \(3,\)\] are no stack"):
        stack_size((torch.zeros(2), torch.zeros(3)))
    with pytest.raises(ValueError, match=r"\[\(\)\] are no stack"):
        stack_size(torch.tensor(1.0))


def test_elements_are_taken_from_every_tensor():
    first, (second,) = take(NESTED, torch.tensor([1, 1]))
    assert first.tolist() == [2, 2]
    assert second.tolist() == [4.0, 4.0]


def test_extremes_are_infinite_for_floats_and_the_ends_of_the_range_for_integers():
    assert extremes(torch.float16) == (-math.inf, math.inf)
    assert extremes(torch.int64) == (-(2**63), 2**63 - 1)
    assert extremes(torch.uint8) == (0, 255)
    assert extremes(torch.bool) == (False, True)


def test_infinite_entries_become_integer_extremes_and_the_others_are_kept():
    op = Operator(torch.maximum, torch.tensor([-math.inf, 7.0, math.inf]))
    like = torch.zeros(2, 3, dtype=torch.int32)
    expected = [torch.iinfo(torch.int32).min, 7, torch.iinfo(torch.int32).max]
    assert identity_like(op, like).tolist() == [expected, expected]
    assert identity_like(op, like.double()).tolist() == [[-math.inf, 7.0, math.inf]] * 2


def test_an_identity_is_expanded_as_a_view_and_keeps_its_gradient():
    parameter = torch.zeros(3, requires_grad=True)
    expanded = identity_like(Operator(torch.add, parameter), torch.zeros(5, 3))
    assert expanded.data_ptr() == parameter.data_ptr()
    expanded.sum().backward()
    assert parameter.grad.tolist() == [5.0] * 3


def test_a_state_of_booleans_has_boolean_identities():
    assert identity_like(Max(), torch.tensor([True])).tolist() == [False]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Sum, r"got the class Sum; expected one of it: Sum\(\.\.\.\)"),
        (16, "got 16; expected an operator: called with two stacks"),
        (torch.add, "got <built-in method add.*>; expected an operator"),
        (SimpleNamespace(operator=Sum()), "got a SimpleNamespace; expected its operator"),
    ],
)
def test_what_is_no_monoid_is_refused_with_what_was_meant(given, message):
    with pytest.raises(ValueError, match=message):
        require_monoid(given)


def test_a_monoid_is_accepted():
    require_monoid(Sum())


def test_a_monoid_may_have_an_operator_as_a_part():
    class Wrapped(Operator):
        operator = Sum()

    require_monoid(Wrapped(torch.add, torch.tensor(0.0)))
