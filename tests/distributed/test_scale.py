"""The calculation of large jobs agrees with their simulation, and with what is known by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import some

np = pytest.importorskip("numpy", reason="simulations are drawn with numpy")

from treefold.distributed.counter import Counter
from treefold.distributed.limits import MOST_TASKS, PARTITIONS_PER_CORE, ROWS_AT_ONCE
from treefold.distributed.scale import (
    Costs,
    Workload,
    calculate,
    counter_depth,
    merges_by_level,
    simulate,
)

COSTS = Costs(rows_per_second=1e5, seconds_per_merge=5e-4, bytes_per_second=5e7)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 100, 129])
def test_simulated_merges_are_those_of_the_counter_that_folds(count):
    met = []

    def meet(a, b):
        """A state holds its depth and the number of its batches."""
        met.append((float(a[0, 1]), float(b[0, 1])))
        return torch.stack([torch.maximum(a, b)[:, 0] + 1, (a + b)[:, 1]], 1)

    one = Counter.of(torch.tensor([[0.0, 1.0]]), 1)
    counter = one
    for _ in range(count - 1):
        counter = counter.merged(one, meet)
    carried = [left for left, right in met]
    total = counter.total(meet)
    *levels, last = (int(level[0]) for level in merges_by_level(np.array([count])))
    assert levels == [carried.count(2.0**level) for level in range(len(levels))]
    assert last == len(met) - len(carried)
    assert counter_depth(np.array([count]))[0] == total[0, 0]


@some
@given(st.integers(1, 64), st.integers(2, 10**6), st.integers(0, 5))
def test_a_simulated_job_takes_what_is_calculated_and_a_little_more(workers, keys, seed):
    work = Workload(num_rows=5e8, num_keys=keys, num_workers=workers)
    expected, found = calculate(COSTS, work), simulate(COSTS, work, seed).duration
    assert found.fold == pytest.approx(expected.fold, rel=0.35)
    assert found.shuffle >= 0.99 * expected.shuffle
    assert found.merge >= 0.4 * expected.merge
    if keys >= 1000 * workers:  # else some partition has many keys more than others
        assert found.total <= 1.9 * expected.total


@some
@given(st.integers(1, 10**4), st.integers(0, 5))
def test_each_state_is_merged_once_except_the_last_of_each_key(keys, seed):
    found = simulate(COSTS, Workload(1e9, keys, 8), seed)
    states = Workload(1e9, keys, 8).num_states
    assert sum(found.merges) + found.last_merges + keys == pytest.approx(states, rel=0.01)
    assert found.depth <= 2 * np.log2(Workload(1e9, keys, 8).num_batches)


def test_one_worker_without_spread_is_the_calculation():
    costs = Costs(1e5, 5e-4, 5e7, spread=0.0)
    work = Workload(num_rows=1e7, num_keys=1, num_workers=1, channels=2, rows_per_batch=10**6)
    expected = calculate(costs, work)
    assert expected.fold == pytest.approx(100)
    assert expected.shuffle == pytest.approx(10 * 32 / 5e7)
    assert expected.merge == pytest.approx(10 * 5e-4)
    found = simulate(costs, work)
    assert found.duration.fold == pytest.approx(expected.fold)
    assert found.duration.shuffle == pytest.approx(expected.shuffle)
    assert found.duration.merge == pytest.approx(expected.merge)
    assert found.merges == (5, 2, 1, 0)  # ten states: 8 + 2
    assert (found.last_merges, found.depth) == (1, 4)


def test_the_work_is_cut_as_the_fold_cuts_it():
    work = Workload(num_rows=1e12, num_keys=1000, num_workers=1000)
    assert work.num_groups == 10**6
    assert work.num_tasks == MOST_TASKS == 10_000
    assert work.rows_per_batch == ROWS_AT_ONCE
    assert work.num_batches == 16 * 10**6  # fifteen whole ones of each row group, and a rest
    assert work.num_partitions == PARTITIONS_PER_CORE * 1000
    assert Workload(num_rows=3e6, num_keys=1000, num_workers=1000).num_partitions == 3


def test_a_batch_has_as_many_states_as_different_keys():
    few, many = (Workload(1e9, keys, 1) for keys in (10, 10**12))
    assert few.num_states == pytest.approx(10 * few.num_batches)
    assert many.num_states == pytest.approx(1e9, rel=1e-3)


def test_more_keys_than_are_simulated_stand_for_all():
    work = Workload(num_rows=1e9, num_keys=10**8, num_workers=10)
    found = simulate(COSTS, work).duration
    assert found.merge == pytest.approx(calculate(COSTS, work).merge, rel=0.4)


def test_twice_the_workers_take_half_the_time_until_one_key_is_too_hot():
    even = [calculate(COSTS, Workload(1e9, 1000, workers)).total for workers in (10, 20)]
    assert even[0] == pytest.approx(2 * even[1])
    hot = [
        simulate(COSTS, Workload(1e9, 1000, workers, hot_share=0.5)).duration.merge
        for workers in (100, 10_000)
    ]
    assert min(hot) >= 16_000 * COSTS.seconds_per_merge * 0.3
    alone = calculate(COSTS, Workload(1e12, 10, 10**9, hot_share=0.5)).merge
    assert alone == pytest.approx(16e6 * COSTS.seconds_per_merge)


def test_more_workers_than_tasks_do_not_fold_faster():
    folds = [calculate(COSTS, Workload(1e12, 10, w)).fold for w in (MOST_TASKS, 10 * MOST_TASKS)]
    assert folds[0] == folds[1] == pytest.approx(1e12 / 1e5 / MOST_TASKS)
