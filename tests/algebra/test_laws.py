import math

import pytest
import torch
from algebra.monoid_cases import SUBTRACTION, Operator
from torch import nn

from treefold.algebra import (
    ASSOCIATIVITY,
    COMMUTATIVITY,
    IDENTITY,
    MONOID_LAWS,
    SWAP,
    KthMinimum,
    Law,
    Mean,
    Sum,
)

A = torch.tensor([[1.0, 2.0], [0.0, 0.0], [5.0, 1.0]])
B = torch.tensor([[4.0, 6.0], [0.0, 0.0], [5.0, 1.0]])
C = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]])


def test_subtraction_violates_each_law_by_the_known_amount():
    # a - e = a but e - a = -a: only the second product is off, by 2a.
    assert IDENTITY.violation(SUBTRACTION, A).absolute.tolist() == pytest.approx(
        [2 * math.sqrt(5), 0.0, 2 * math.sqrt(26)]
    )
    # (a - b) - (b - a) = 2 (a - b)
    commutativity = COMMUTATIVITY.violation(SUBTRACTION, A, B)
    assert commutativity.absolute.tolist() == [10.0, 0.0, 0.0]
    assert commutativity.relative.tolist() == [2.0, 0.0, 0.0]
    # ((a - b) - c) - (a - (b - c)) = -2c
    associativity = ASSOCIATIVITY.violation(SUBTRACTION, A, B, C)
    assert associativity.absolute.tolist() == [10.0, 0.0, 0.0]
    assert associativity.relative.tolist() == pytest.approx([10 / math.hypot(6, 8), 0.0, 0.0])


def test_the_identity_law_checks_both_sides():
    left = Operator(lambda a, b: a, torch.tensor(0.0))
    right = Operator(lambda a, b: b, torch.tensor(0.0))
    for projection in (left, right):
        assert IDENTITY.violation(projection, C).absolute.tolist() == [5.0, 0.0, 0.0]


def test_a_cell_that_adds_may_swap_its_inputs_and_one_that_forgets_may_not():
    SWAP.assert_holds(lambda s, x: s + x, A, B, C)
    # s/2 + x twice: s/4 + x/2 + y, so swapping x and y moves the outcome by (y - x) / 2.
    violation = SWAP.violation(lambda s, x: s / 2 + x, A, B, B + 2 * C)
    assert violation.absolute.tolist() == [5.0, 0.0, 0.0]


def test_a_cell_may_have_inputs_of_another_width_than_its_state():
    cell = nn.GRUCell(3, 5)

    def step(state, x):
        return cell(x, state)

    generator = torch.Generator().manual_seed(0)
    s, x, y = (torch.randn(4, width, generator=generator) for width in (5, 3, 3))
    assert SWAP.violation(step, s, x, x).absolute.tolist() == [0.0] * 4
    assert (SWAP.violation(step, s, x, y).absolute > 1e-3).all()


def test_the_loss_is_the_mean_over_samples_of_the_squared_norm():
    torch.testing.assert_close(
        ASSOCIATIVITY.loss(SUBTRACTION, A, B, C), torch.tensor((6.0**2 + 8.0**2) / 3)
    )
    torch.testing.assert_close(
        ASSOCIATIVITY.loss(SUBTRACTION, A, B, C, reduction="mean"),
        torch.tensor((6.0**2 + 8.0**2) / 6),
    )


def test_the_loss_of_a_tuple_counts_all_of_its_tensors():
    swap = Operator(lambda a, b: (a[0] - b[0], a[1] + b[1]), (torch.tensor(0.0),) * 2)
    a, b = (A, A[:, 0]), (B, B[:, 0])
    assert COMMUTATIVITY.loss(swap, a, b).item() == pytest.approx(100 / 3)
    assert COMMUTATIVITY.loss(swap, a, b, reduction="mean").item() == pytest.approx(100 / 9)


def test_the_gradient_of_the_loss_is_the_one_computed_by_hand():
    b = B.clone().requires_grad_()
    COMMUTATIVITY.loss(SUBTRACTION, A, b).backward()
    torch.testing.assert_close(b.grad, 8 * (B - A) / 3)  # d/db 4 |a - b|² / n


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_gradients_are_finite_where_the_law_holds_already(reduction):
    a = A.clone().requires_grad_()
    for law in MONOID_LAWS:
        loss = law.loss(Sum(), *[a] * law.arity, reduction=reduction)
        (gradient,) = torch.autograd.grad(loss, a)
        assert loss.item() == 0.0
        assert gradient.tolist() == torch.zeros_like(A).tolist()


def test_equal_infinities_cost_nothing_and_leave_gradients_finite():
    op = KthMinimum(2)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = IDENTITY.loss(op, op.encode(x))
    loss.backward()
    assert loss.item() == 0.0
    assert x.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_no_samples_cost_nothing_and_still_reach_every_parameter(reduction):
    cell = nn.GRUCell(4, 4)
    none = torch.zeros(0, 4)
    loss = ASSOCIATIVITY.loss(cell, none, none, none, reduction=reduction)
    loss.backward()
    assert loss.item() == 0.0
    assert all(parameter.grad.abs().sum() == 0 for parameter in cell.parameters())


def test_half_precision_does_not_overflow_in_the_square():
    a, b = torch.full((1, 1), 300.0).half(), torch.zeros(1, 1).half()
    loss = COMMUTATIVITY.loss(SUBTRACTION, a, b)
    assert loss.item() == 600.0**2


def test_integers_and_booleans_can_be_checked():
    COMMUTATIVITY.assert_holds(torch.bitwise_and, torch.tensor([True]), torch.tensor([False]))
    with pytest.raises(AssertionError, match="differ by 2 "):
        COMMUTATIVITY.assert_holds(torch.sub, torch.tensor([1]), torch.tensor([2]))
    assert COMMUTATIVITY.loss(torch.sub, torch.tensor([1]), torch.tensor([2])).item() == 4.0


def test_a_failed_assertion_names_the_law_the_sample_both_sides_and_the_distance():
    a, b = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0], [7.0], [4.0]])
    with pytest.raises(AssertionError) as caught:
        COMMUTATIVITY.assert_holds(SUBTRACTION, a, b)
    message = str(caught.value)
    assert "commutativity fails for 2 of 3 samples; the worst is sample 1" in message
    assert "left:  tensor([-5.])" in message
    assert "right: tensor([5.])" in message
    assert "differ by 10 " in message
    assert "relatively by 2 " in message


def test_the_worst_sample_is_sought_among_those_that_break_the_law():
    # Off by √b / 100: more in absolute terms, less in relative ones, for the larger sample.
    op = Operator(lambda a, b: a + b + (a < b) * b.sqrt() / 100, torch.tensor(0.0))
    a, b = torch.tensor([1.0, 1e6]), torch.tensor([2.0, 2e6])
    with pytest.raises(AssertionError, match="fails for 1 of 2 samples; the worst is sample 0"):
        COMMUTATIVITY.assert_holds(op, a, b, rtol=1e-4)


def test_not_a_number_breaks_a_law_and_is_the_worst_sample():
    a = torch.tensor([1.0, math.nan, 2.0])
    with pytest.raises(AssertionError, match="fails for 1 of 3 samples; the worst is sample 1"):
        COMMUTATIVITY.assert_holds(Sum(), a, a)


def test_tolerances_follow_the_type_and_can_be_set():
    def nearly(scale):
        return Operator(lambda a, b: a + (1 + scale) * b, torch.tensor(0.0))

    ones, halves = torch.ones(1, dtype=torch.float64), torch.full((1,), 0.5, dtype=torch.float64)
    COMMUTATIVITY.assert_holds(nearly(1e-7), ones.float(), halves.float())
    with pytest.raises(AssertionError):
        COMMUTATIVITY.assert_holds(nearly(1e-7), ones, halves)
    COMMUTATIVITY.assert_holds(nearly(1e-7), ones, halves, rtol=1e-6)
    COMMUTATIVITY.assert_holds(nearly(1e-7), ones, halves, atol=1e-6)
    with pytest.raises(AssertionError):
        COMMUTATIVITY.assert_holds(nearly(1e-2), ones.float(), halves.float(), rtol=1e-3, atol=0.0)


def test_tuples_of_tensors_are_elements_too():
    state = Mean().encode(A)
    ASSOCIATIVITY.assert_holds(Mean(), state, Mean().encode(B), Mean().encode(C))
    with pytest.raises(AssertionError, match=r"left:  \(\(tensor"):
        IDENTITY.assert_holds(Operator(lambda a, b: b, Mean().identity), state)


def test_a_violation_records_no_gradients():
    a = A.clone().requires_grad_()
    assert not COMMUTATIVITY.violation(SUBTRACTION, a, B).absolute.requires_grad


def test_a_wrong_number_of_elements_is_refused():
    with pytest.raises(ValueError, match="associativity speaks of 3 elements, but 2 were given"):
        ASSOCIATIVITY.loss(Sum(), A, B)


def test_stacks_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match=r"stacks of one size, but those given hold \[3, 1\]"):
        COMMUTATIVITY.violation(Sum(), A, B[:1])


def test_an_operator_that_changes_the_shape_is_refused():
    with pytest.raises(ValueError, match=r"shapes \(3, 4\) and \(3, 2\)"):
        IDENTITY.violation(Operator(lambda a, b: torch.cat([a, b], -1), torch.tensor(0.0)), A)


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match="unknown reduction 'max'; use 'sum' or 'mean'"):
        COMMUTATIVITY.loss(Sum(), A, B, reduction="max")


def test_a_law_whose_function_takes_other_arguments_is_refused():
    with pytest.raises(ValueError, match=r"law odd speaks of 2 elements.* gets 3 .*\(op, a\)"):
        Law("odd", 2, lambda op, a: (a, a))
    assert Law("any", 2, lambda op, *elements: elements).arity == 2


def test_a_law_that_has_not_two_sides_is_refused():
    law = Law("odd", 1, lambda op, a: op(a, a) - a)
    with pytest.raises(ValueError, match=r"law odd gives Tensor; expected its two sides"):
        law.violation(Sum(), A)
