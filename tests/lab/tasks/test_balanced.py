import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from treefold.lab.tasks import SET_TASKS
from treefold.lab.tasks.set_task import stream
from treefold.lab.tasks.set_tasks import picked_evenly, planted_kth_smallest


@given(st.integers(1, 4), st.integers(0, 40), st.integers(0, 2**16))
def test_the_kth_smallest_is_the_answer_that_was_drawn_first(k, more, seed):
    size = k + more
    values = planted_kth_smallest(50, size, 256, k, stream(seed, 0))
    drawn = torch.randint(0, 256, (50, 1), generator=stream(seed, 0)).squeeze(1)
    assert values.sort(1).values[:, k - 1].tolist() == drawn.tolist()
    assert values.min() >= 0
    assert values.max() <= 255


@pytest.mark.parametrize("size", [2, 16, 200])
def test_no_constant_answer_is_right_more_often_than_chance(size):
    task = SET_TASKS["second-minimum"](num_evaluation=20_000)
    counts = torch.bincount(task.balanced(size, 0).answers, minlength=256)
    expected = 20_000 / 256
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert 170 < chi_square < 360  # 255 degrees of freedom: outside with probability 1e-4


def test_integers_below_and_above_the_answer_are_uniform():
    values = planted_kth_smallest(200_000, 3, 4, 2, stream(0, 0)).sort(1).values
    at_two = values[values[:, 1] == 2]  # one of 0, 1, 2; then 2; then one of 2, 3
    for column, outcomes in ((0, (0, 1, 2)), (2, (2, 3))):
        shares = [(at_two[:, column] == value).double().mean().item() for value in outcomes]
        assert shares == pytest.approx([1 / len(outcomes)] * len(outcomes), abs=0.01)


def test_the_answer_may_lie_at_any_place():
    values = planted_kth_smallest(20_000, 4, 256, 2, stream(1, 0))
    answers = values.sort(1).values[:, 1:2]
    shares = (values == answers).double().mean(0)
    assert shares.max() - shares.min() < 0.02


@pytest.mark.parametrize("size", [1, 2, 16, 64])
def test_every_mode_is_as_frequent_as_the_others(size):
    task = SET_TASKS["mode"](num_evaluation=160)
    data = task.balanced(size, 3)
    assert torch.bincount(data.answers, minlength=16).tolist() == [10] * 16
    assert data.sizes.tolist() == [size] * 160
    assert data.answers.tolist() == task.label(data.values, data.sizes).answers.tolist()
    assert data.answers.tolist() != sorted(data.answers.tolist())


@pytest.mark.parametrize("name", SET_TASKS)
def test_balanced_sets_come_from_a_seed_and_are_labelled_by_the_monoid(name):
    task = SET_TASKS[name](num_evaluation=32)
    first, again, other = task.balanced(12, 0), task.balanced(12, 0), task.balanced(12, 1)
    assert first.values.tolist() == again.values.tolist() != other.values.tolist()
    assert first.answers.tolist() == task.label(first.values, first.sizes).answers.tolist()


def test_an_answer_that_hardly_occurs_is_named(monkeypatch):
    monkeypatch.setattr("treefold.lab.tasks.set_tasks.MAX_ROUNDS", 2)
    task = SET_TASKS["second-minimum"](num_evaluation=256)
    with pytest.raises(ValueError, match="hardly ever occur in uniform sets of 200"):
        picked_evenly(task, 200, stream(0, 0))
