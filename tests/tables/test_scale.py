"""The calculation of large jobs agrees with their simulation, and with what is known by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import some

from treefold.tables.scale import Costs, Workload, calculate, simulate

COSTS = Costs(rows_per_second=1e5, seconds_per_merge=5e-4, bytes_per_second=5e7)


@some
@given(st.integers(1, 64), st.integers(2, 10**6), st.integers(0, 5))
def test_a_simulated_job_takes_what_is_calculated_and_a_little_more(workers, keys, seed):
    work = Workload(num_rows=5e8, num_keys=keys, num_workers=workers)
    expected, found = calculate(COSTS, work), simulate(COSTS, work, seed)
    assert found.fold == pytest.approx(expected.fold, rel=0.35)
    assert found.shuffle >= 0.99 * expected.shuffle
    assert found.total <= 1.9 * expected.total


def test_one_worker_without_spread_is_the_calculation():
    costs = Costs(1e5, 5e-4, 5e7, spread=0.0)
    work = Workload(num_rows=1e7, num_keys=1, num_workers=1, channels=2, rows_per_batch=10**6)
    expected = calculate(costs, work)
    assert expected.fold == pytest.approx(100)
    assert expected.shuffle == pytest.approx(10 * 32 / 5e7)
    assert expected.merge == pytest.approx(10 * 5e-4)
    assert simulate(costs, work).fold == pytest.approx(expected.fold)
    assert simulate(costs, work).shuffle == pytest.approx(expected.shuffle)


def test_a_task_has_as_many_states_as_different_keys():
    few, many = (Workload(1e9, keys, 1).states_per_task for keys in (10, 10**12))
    assert few == pytest.approx(10 * 1e6 / 65_536)  # in each batch
    assert many == pytest.approx(1e6, rel=1e-3)


def test_twice_the_workers_take_half_the_time_until_one_key_is_too_hot():
    even = [calculate(COSTS, Workload(1e9, 1000, workers)).total for workers in (10, 20)]
    assert even[0] == pytest.approx(2 * even[1])
    hot = [simulate(COSTS, Workload(1e9, 1000, w, hot_share=0.5)).merge for w in (100, 10_000)]
    assert min(hot) >= 1000 * 1e6 / 65_536 * COSTS.seconds_per_merge * 0.3
    alone = calculate(COSTS, Workload(1e12, 10, 10**9, hot_share=0.5)).merge
    assert alone == pytest.approx(1e12 / 65_536 * COSTS.seconds_per_merge)
