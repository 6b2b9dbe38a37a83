"""Distances between bracketings are in the units of the output."""

import pytest
import torch
from trees import normal, seeded

from treefold.algebra import Max, Mean, Sum
from treefold.fold import Groups, plan_tree, tree_reduce
from treefold.incremental import bracketing_stability
from treefold.operators import BinaryGRU, Conjugated

SIZES = [12, 0, 1, 2, 30]


class Midpoint:
    """Commutative, not associative: how far the orders are apart is known."""

    identity = torch.tensor(0.0)

    def __call__(self, a, b):
        return (a + b) / 2


@pytest.mark.parametrize("op", [Sum(), Max(), Mean()], ids=str)
def test_an_exact_monoid_has_one_answer(op):
    x = op.encode(torch.randint(0, 1000, (45, 2)))
    found = bracketing_stability(op, x, Groups.from_sizes(SIZES), 5, seeded())
    assert found.absolute.shape == found.relative.shape == (5, 5)
    assert found.largest.eq(0).all()
    assert found.typical.eq(0).all()


def test_three_numbers_meet_in_three_ways():
    x = torch.tensor([[0.0], [0.0], [4.0]])
    # Balanced: (0 (0 4)) = 1; others: ((0 0) 4) = 2, and 1 again.
    found = bracketing_stability(Midpoint(), x, Groups.from_sizes([3]), 64, seeded())
    assert found.absolute.unique().tolist() == [0, 1]
    assert found.largest.tolist() == [1]
    assert found.relative.max() == 0.5
    assert 0 < found.typical < 1


def test_distances_are_taken_after_decoding():
    op, x, groups = BinaryGRU(2).double(), normal(45, 2), Groups.from_sizes(SIZES)
    plain = bracketing_stability(op, x, groups, 4, seeded())
    decoded = bracketing_stability(
        op, x, groups, 4, seeded(), decode=lambda state: state[:, :1] * 100
    )
    assert plain.largest[4] > 1e-6
    assert plain.largest[[1, 2]].tolist() == [0, 0]
    assert (decoded.absolute <= 100 * plain.absolute + 1e-9).all()
    assert decoded.largest[4] > plain.largest[4]


def test_an_operator_that_is_associative_by_construction_differs_by_rounding_only():
    op = Conjugated.sum(4).double()
    found = bracketing_stability(op, normal(45, 4), Groups.from_sizes(SIZES), 4, seeded())
    assert found.largest.max() < 1e-9


def test_the_reference_can_be_given():
    op, x, groups = Sum(), torch.randint(0, 9, (45, 2)), Groups.from_sizes(SIZES)
    reference = tree_reduce(op, x, plan_tree(SIZES)) + torch.tensor([3, 4])
    found = bracketing_stability(op, x, groups, 2, seeded(), reference=reference)
    assert found.largest.tolist() == [5, 0, 0, 5, 5]  # one element, or none, is certain


def test_it_says_so_in_a_line():
    x = torch.tensor([[0.0], [0.0], [4.0]])
    found = bracketing_stability(Midpoint(), x, Groups.from_sizes([3]), 64, seeded())
    assert str(found).startswith("64 bracketings of 1 sets: typically 0.")
    assert str(found).endswith("apart, at most 1 (50.00% of the answer)")


def test_no_bracketings_measure_nothing():
    with pytest.raises(ValueError, match="0 bracketings measure nothing"):
        bracketing_stability(Sum(), torch.zeros(1, 1), Groups.from_sizes([1]), 0)


@pytest.mark.parametrize("size", [5, 29, 31])
def test_rows_that_are_not_those_of_the_groups_are_refused(size):
    with pytest.raises(ValueError, match=f"30 rows, but the groups are for {size}"):
        bracketing_stability(Sum(), normal(30, 2), Groups.from_sizes([size]))
