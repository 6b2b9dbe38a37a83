"""Set tasks: their answers, and the oracle that needs no training."""

import statistics
from functools import reduce
from operator import or_, xor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.lab.tasks import SET_TASKS, KthSmallest, SetData, from_bits, to_bits

DEFINITIONS = {
    "second-minimum": lambda values: sorted([*values, 255, 255])[1],
    "parity": lambda values: sum(values) % 2,
    "count-modulo": lambda values: sum(value % 2 for value in values) % 5,
    "mode": lambda values: min(statistics.multimode(values)),
    "xor": lambda values: reduce(xor, values),
    "bitwise-or": lambda values: reduce(or_, values),
}


def test_every_task_has_a_definition_to_be_tested_against():
    assert DEFINITIONS.keys() == SET_TASKS.keys()


@pytest.mark.parametrize("name", SET_TASKS)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_monoid_gives_the_answer_of_the_definition(name, data):
    task = SET_TASKS[name]()
    integers = st.integers(0, task.num_values - 1)
    sets = data.draw(st.lists(st.lists(integers, min_size=1, max_size=20), min_size=1, max_size=5))
    values = torch.tensor([value for values in sets for value in values])
    labelled = task.label(values, torch.tensor([len(values) for values in sets]))
    assert labelled.answers.tolist() == [DEFINITIONS[name](values) for values in sets]


@pytest.mark.parametrize("name", SET_TASKS)
def test_answers_fit_into_their_bits(name):
    task = SET_TASKS[name](num_train=2000)
    assert int(task.train(0).answers.max()) < 2**task.answer_bits


def test_sizes_and_values_are_those_of_the_paper():
    task = KthSmallest()
    train, validation, evaluation = task.train(0), task.validation(0), task.evaluation(7, 0)
    assert (len(train), len(validation), len(evaluation)) == (65_536, 1_024, 1_024)
    assert train.sizes.unique().tolist() == list(range(1, 17))
    assert validation.sizes.unique().tolist() == [32]
    assert evaluation.sizes.unique().tolist() == [7]
    counts = torch.bincount(train.values, minlength=256).double()
    assert len(counts) == 256
    assert float((counts / counts.mean() - 1).abs().max()) < 0.1  # 2,176 of each, give or take


def test_data_is_a_function_of_the_seed_and_its_parts_differ():
    task = KthSmallest(num_train=100, num_validation=100, num_evaluation=100)
    assert torch.equal(task.train(3).values, task.train(3).values)
    assert not torch.equal(task.train(3).values[:50], task.train(4).values[:50])
    assert not torch.equal(task.validation(3).values, task.evaluation(32, 3).values)


def test_one_element_has_the_saturated_second_minimum_or_itself():
    values, sizes = torch.tensor([9, 4, 7]), torch.tensor([1, 2])
    assert KthSmallest().label(values, sizes).answers.tolist() == [255, 7]
    assert KthSmallest(saturate=False).label(values, sizes).answers.tolist() == [9, 7]


def test_taken_sets_keep_their_values_and_answers():
    data = SetData(torch.arange(6), torch.tensor([1, 3, 2]), torch.tensor([10, 20, 30]))
    taken = data.take(torch.tensor([2, 0, 2]))
    assert taken.values.tolist() == [4, 5, 0, 4, 5]
    assert taken.sizes.tolist() == [2, 1, 2]
    assert taken.answers.tolist() == [30, 10, 30]


@given(st.lists(st.integers(0, 255), min_size=1))
def test_bits_give_back_the_number(numbers):
    digits = to_bits(torch.tensor(numbers), 8)
    assert from_bits(digits).tolist() == numbers
    assert digits[0].tolist() == [int(digit) for digit in reversed(f"{numbers[0]:08b}")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 0}, "0 bits; expected 1 to 16"),
        ({"num_train": 0}, "num_train is 0"),
        ({"max_train_size": -1}, "max_train_size is -1"),
    ],
)
def test_impossible_tasks_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        KthSmallest(**options)
