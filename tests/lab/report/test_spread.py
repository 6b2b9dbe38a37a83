import math

import pytest

from treefold.lab.report.seed_stats import fold


def test_several_seeds_have_a_mean_a_range_and_the_deviation_of_a_sample():
    spread = fold([0.2, 0.4, 0.9])
    assert (spread.mean, spread.low, spread.high) == (pytest.approx(0.5), 0.2, 0.9)
    assert spread.deviation == pytest.approx(math.sqrt((0.09 + 0.01 + 0.16) / 2))
    assert spread.count == 3


def test_one_seed_has_no_deviation():
    assert fold([0.2]).deviation is None


def test_what_is_missing_or_not_finite_is_left_out():
    assert fold([None, 0.5, math.nan, math.inf, 10**400]).count == 1
    assert fold([None, math.nan]) is None


def test_ranges_overlap_where_they_share_a_value():
    assert fold([1, 3]).overlaps(fold([3, 5]))
    assert not fold([1, 3]).overlaps(fold([3.1, 5]))
