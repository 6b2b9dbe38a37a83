"""Elements that behave alike become one; what is read off stays the same."""

import pytest
import torch
from finite.machines import COUNT, SECOND, TASKS, closed

from treefold.algebra import Product, SumModulo
from treefold.finite import check, close, minimize


def test_a_monoid_that_counts_too_far_shrinks_to_what_is_asked():
    finite = close(SumModulo(12), torch.tensor([1, 5]))
    quotient = minimize(finite, finite.codes % 4)
    assert len(quotient.monoid) == 1 + 4
    assert check(quotient.monoid).commutative_monoid


def test_what_is_never_asked_for_is_forgotten():
    op = Product(SumModulo(2), SumModulo(3))
    finite = close(op, (torch.tensor([0, 1, 1]), torch.tensor([1, 0, 2])))
    quotient = minimize(finite, finite.codes[0])
    assert (len(finite), len(quotient.monoid)) == (7, 3)


def test_a_single_value_and_one_with_the_largest_beside_it_are_alike_in_second_minimum():
    quotient = minimize(closed(SECOND))
    assert (len(closed(SECOND)), len(quotient.monoid)) == (1 + 36 + 8, 1 + 36)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("trees", [False, True])
def test_it_is_a_homomorphism_that_keeps_answers(task, trees):
    finite = closed(task, trees=trees)
    quotient = minimize(finite)
    smaller, classes = quotient.monoid, quotient.classes
    a, b = torch.cartesian_prod(torch.arange(len(finite)), torch.arange(len(finite))).T
    assert torch.equal(classes[finite(a, b)], smaller(classes[a], classes[b]))
    assert torch.equal(smaller.decode(classes)[1:], finite.decode(torch.arange(1, len(finite))))
    assert torch.equal(smaller.values, classes[finite.values])


@pytest.mark.parametrize("task", TASKS)
def test_minimising_again_changes_nothing_and_histories_lead_to_their_elements(task):
    smaller = minimize(closed(task)).monoid
    assert len(minimize(smaller).monoid) == len(smaller)
    for element in range(1, len(smaller)):
        at = torch.tensor(0)
        for value in smaller.word(element):
            at = smaller(at, smaller.values[value])
        assert int(at) == element


def test_the_identity_stays_apart_even_where_an_element_acts_like_it():
    quotient = minimize(closed(COUNT))
    zero = int(quotient.monoid.values[0])
    assert zero != 0
    everything = torch.arange(1, len(quotient.monoid))
    assert torch.equal(quotient.monoid(everything, torch.tensor(zero)), everything)


def test_answers_are_needed_one_for_each_element():
    finite = close(SumModulo(3), torch.tensor([1]))
    with pytest.raises(ValueError, match="give `answers`"):
        minimize(finite)
    with pytest.raises(ValueError, match="there are 2 answers for 4 elements"):
        minimize(finite, torch.zeros(2))


def test_what_is_no_monoid_is_refused_where_products_of_alike_elements_differ():
    finite = close(_Lopsided(), torch.tensor([0]))
    assert not check(finite).commutative_monoid
    with pytest.raises(ValueError, match="no commutative monoid"):
        minimize(finite, (finite.codes == 9).long())


class _Lopsided:
    """Lists go round in a circle of two states that nothing tells apart; a tree leaves it."""

    identity = torch.tensor(-1)

    def __call__(self, a, b):
        return torch.where((a == 1) & (b == 1), 9, torch.where(b == 0, 1 - a.clamp(max=1), a))
