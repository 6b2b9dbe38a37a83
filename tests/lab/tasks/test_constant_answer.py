"""The best constant answer is that of the exact distribution."""

from collections import Counter
from itertools import product

import pytest

from treefold.lab.tasks.constant_answer import best_constant, kth_minimum

TASK = {"name": "second-minimum", "bits": 8, "k": 2, "saturate": True, "num_train": 65_536}


def test_second_minima_of_large_sets_are_easier_to_guess():
    assert best_constant(TASK, 32) == pytest.approx(0.0467, abs=1e-4)
    assert best_constant(TASK, 200) == pytest.approx(0.2793, abs=1e-4)


@pytest.mark.parametrize(("size", "k"), [(1, 1), (2, 2), (3, 2), (4, 3), (2, 3)])
@pytest.mark.parametrize("saturate", [True, False])
def test_the_distribution_is_that_of_counting_all_sets(size, k, saturate):
    def answer(values):
        if size < k:
            return 3 if saturate else max(values)
        return sorted(values)[k - 1]

    counts = Counter(answer(values) for values in product(range(4), repeat=size))
    expected = [counts[value] / 4**size for value in range(4)]
    assert kth_minimum(size, bits=2, k=k, saturate=saturate) == pytest.approx(expected)


def test_a_set_of_one_has_the_saturated_answer_or_a_uniform_one():
    assert best_constant(TASK, 1) == 1.0
    assert best_constant({**TASK, "saturate": False}, 1) == pytest.approx(1 / 256)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_other_tasks_have_their_own_best_guess(size):
    counts = Counter(sum(bits) % 3 for bits in product(range(2), repeat=size))
    assert best_constant({"name": "count-modulo", "m": 3}, size) == max(counts.values()) / 2**size
    assert best_constant({"name": "parity"}, size) == 0.5
    assert best_constant({"name": "xor", "bits": 4}, size) == 1 / 16


@pytest.mark.parametrize(
    "task", [{}, {"name": "mode"}, {**TASK, "bits": "x"}, {**TASK, "bits": 60}, {**TASK, "k": None}]
)
def test_a_task_without_a_formula_has_no_line(task):
    assert best_constant(task, 5) is None
