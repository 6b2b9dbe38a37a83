import statistics

import pytest
import torch
from algebra.monoid_cases import fold
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.algebra import Mean, Variance, identity_like

REAL_LISTS = st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=12)


def aggregate(monoid, values):
    return monoid.decode(fold(monoid, values))[0]


@settings(deadline=None)
@given(REAL_LISTS)
def test_the_mean_is_the_mean(values):
    x = torch.tensor(values, dtype=torch.float64)
    assert aggregate(Mean(), x).item() == pytest.approx(statistics.fmean(values), abs=1e-9)


@settings(deadline=None)
@given(REAL_LISTS)
def test_the_variance_is_torchs_with_and_without_the_correction(values):
    x = torch.tensor(values, dtype=torch.float64)
    for unbiased in (False, True):
        torch.testing.assert_close(
            aggregate(Variance(unbiased), x), torch.var(x, correction=int(unbiased))
        )


@settings(deadline=None)
@given(REAL_LISTS, REAL_LISTS)
def test_variances_of_two_parts_merge_to_that_of_the_whole(one, other):
    one, other = torch.tensor(one).double(), torch.tensor(other).double()
    merged = Variance()(fold(Variance(), one), fold(Variance(), other))
    whole = torch.cat([one, other])
    torch.testing.assert_close(Variance().decode(merged)[0], whole.var(correction=0))


def test_the_variance_survives_a_large_mean():
    x = torch.tensor([1e8 + 1, 1e8 + 2, 1e8 + 3], dtype=torch.float64)
    assert aggregate(Variance(), x).item() == pytest.approx(2 / 3, rel=1e-6)


def test_feature_axes_have_their_own_statistics():
    x = torch.tensor([[0.0, 10.0], [2.0, 30.0]])
    assert aggregate(Mean(), x).tolist() == [1.0, 20.0]
    assert aggregate(Variance(), x).tolist() == [1.0, 100.0]


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_of_nothing_mean_and_variance_are_nan(dtype):
    for monoid in (Mean(), Variance(), Variance(unbiased=True)):
        like = monoid.encode(torch.zeros(2, dtype=dtype))
        assert monoid.decode(identity_like(monoid, like)).isnan().all()


def test_of_one_value_the_variance_is_zero_and_the_unbiased_one_nan():
    one = Variance().encode(torch.tensor([5.0]))
    assert Variance().decode(one).item() == 0.0
    assert Variance(unbiased=True).decode(one).isnan().all()


def test_integers_and_booleans_have_fractional_means():
    assert aggregate(Mean(), torch.tensor([1, 2])).item() == 1.5
    assert aggregate(Mean(), torch.tensor([True, True, False, False])).item() == 0.5
    assert aggregate(Variance(), torch.tensor([1, 2])).item() == 0.25
    state = fold(Mean(), torch.tensor([1, 2]))
    assert [tensor.dtype for tensor in state] == [torch.int64, torch.int64]
