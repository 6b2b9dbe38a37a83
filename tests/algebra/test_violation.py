import math

import pytest
import torch

from treefold.algebra import compare, default_tolerance

INF, NAN = math.inf, math.nan


def test_the_norm_runs_over_all_features_of_all_tensors():
    left = (torch.tensor([[3.0, 0.0]]), torch.tensor([4.0]))
    right = (torch.zeros(1, 2), torch.zeros(1))
    violation = compare(left, right)
    assert violation.absolute.tolist() == [5.0]
    assert violation.relative.tolist() == [1.0]


@pytest.mark.parametrize(
    ("left", "right", "absolute", "relative"),
    [
        ([0.0], [0.0], 0.0, 0.0),
        ([8.0], [10.0], 2.0, 0.2),
        ([-1.0], [1.0], 2.0, 2.0),
        ([INF], [INF], 0.0, 0.0),
        ([8.0, INF], [10.0, INF], 2.0, 0.2),
        ([INF], [-INF], INF, INF),
        ([INF], [1.0], INF, INF),
        ([NAN], [NAN], NAN, NAN),
        ([1e30], [2e30], 1e30, 0.5),
    ],
)
def test_a_violation_is_measured_absolutely_and_relatively(left, right, absolute, relative):
    for one, other in [(left, right), (right, left)]:
        violation = compare(torch.tensor([one]), torch.tensor([other]))
        assert violation.absolute.item() == pytest.approx(absolute, nan_ok=True)
        assert violation.relative.item() == pytest.approx(relative, nan_ok=True)


def test_booleans_and_integers_differ_by_numbers():
    assert compare(torch.tensor([True]), torch.tensor([False])).absolute.tolist() == [1.0]
    unsigned = compare(torch.tensor([1], dtype=torch.uint8), torch.tensor([255], dtype=torch.uint8))
    assert unsigned.absolute.tolist() == [254.0]


def test_integers_too_large_for_floats_still_differ():
    huge = torch.tensor([2**62, -(2**63)])
    other = torch.tensor([2**62 + 1, 2**63 - 1])
    violation = compare(huge, other)
    assert violation.absolute.tolist() == [1.0, 2.0**64]
    assert compare(huge, huge).absolute.tolist() == [0.0, 0.0]


def test_nothing_is_violated_by_no_samples():
    violation = compare(torch.zeros(0, 3), torch.zeros(0, 3))
    assert violation.absolute.shape == violation.relative.shape == (0,)


def test_samples_are_within_tolerance_by_either_measure():
    violation = compare(torch.tensor([1e-9, 1000.0, 1.0, NAN]), torch.tensor([0.0, 1001, 2.0, NAN]))
    assert violation.within(rtol=1e-2, atol=1e-6).tolist() == [True, True, False, False]


def test_sides_of_different_shapes_are_refused_instead_of_broadcast():
    with pytest.raises(ValueError, match=r"shapes \(2, 1\) and \(2, 3\)"):
        compare(torch.zeros(2, 1), torch.zeros(2, 3))


def test_the_coarsest_type_sets_the_tolerance():
    half, single, integer = torch.zeros(1).half(), torch.zeros(1), torch.zeros(1).long()
    assert default_tolerance(integer) == 0
    assert default_tolerance((single, integer)) == pytest.approx(6.4e-6, rel=0.01)
    assert default_tolerance(single, half) == default_tolerance(half) > 1e-3
