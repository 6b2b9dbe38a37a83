"""Certificates hold where every fold is right, and only there."""

import dataclasses
import itertools

import pytest
import torch
from finite.machines import SECOND, TASKS, Spoiled, closed

from treefold.algebra import SumModulo
from treefold.finite import Certificate, certify, close, closure, fingerprint, target_classes
from treefold.lab.tasks import SET_TASKS
from treefold.operators import FiniteSelection

FIVE = SET_TASKS["count-modulo"](bits=1, m=5)


@pytest.mark.parametrize("grade", ["stream", "tree"])
@pytest.mark.parametrize("task", TASKS)
def test_a_tasks_own_monoid_is_certified(task, grade):
    finite = closed(task)
    found = certify(finite, task, grade)
    products = len(finite) * (task.num_values + (len(finite) if grade == "tree" else 0))
    assert found.holds
    assert (found.wrong, found.counterexamples) == (0, ())
    assert found.checked == len(finite) - 1 + products
    assert found.classes <= found.elements == len(finite) - 1


def test_one_wrong_product_that_lists_never_ask_for_costs_the_tree_grade_alone():
    finite = close(Spoiled(), torch.tensor([0, 1])).answering(lambda state: state)
    assert certify(finite, FIVE, "stream").holds
    found = certify(finite, FIVE, "tree")
    assert (found.holds, found.wrong) == (False, 1)
    assert "is the state of 0" in found.counterexamples[0]


def test_a_wrong_answer_is_shown_with_the_tree_that_gets_it():
    finite = closed(SECOND)
    answers = finite.answers.clone()
    answers[finite(finite.values[3], finite.values[5])] = 7
    found = certify(dataclasses.replace(finite, answers=answers), SECOND, "stream")
    assert not found.holds
    assert "(3 ⊕ 5) answers 7, expected 5" in found.counterexamples


def test_two_states_for_one_class_do_no_harm():
    finite = close(SumModulo(10), torch.tensor([0, 1]))
    finite = finite.answering(lambda state: state % 5)
    found = certify(finite, FIVE)
    assert (found.holds, found.elements, found.classes) == (True, 10, 5)


def test_one_state_for_two_classes_is_wrong_whatever_it_answers():
    finite = close(SumModulo(1), torch.tensor([0, 0])).answering(lambda state: state)
    assert not certify(finite, SET_TASKS["parity"](bits=1)).holds


def wrong_by_brute_force(op, task, answers, longest=5):
    """Is any list of up to so many values answered wrongly, by its operator alone?"""
    for n in range(1, longest + 1):
        lists = torch.tensor(list(itertools.product(range(task.num_values), repeat=n)))
        state = lists[:, 0]
        for place in range(1, n):
            state = op(state, lists[:, place])
        expected = task.label(lists.flatten(), torch.full((len(lists),), n)).answers
        if not torch.equal(answers[state], expected):
            return True
    return False


@pytest.mark.parametrize("seed", range(30))
def test_the_stream_grade_is_what_trying_every_list_says(seed):
    generator = torch.Generator().manual_seed(seed)
    task = SET_TASKS["parity"](bits=1)
    table = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
    for _ in range(seed % 3):
        table[tuple(torch.randint(0, 4, (2,), generator=generator))] = seed % 4
    op = _Looked(table)
    answers = torch.tensor([0, 1, 0, 1])
    finite = close(op, torch.tensor([0, 1]), trees=False).answering(lambda state: answers[state])
    holds = certify(finite, task, "stream").holds
    assert holds is not wrong_by_brute_force(op, task, answers)


class _Looked:
    identity = torch.tensor(-1)

    def __init__(self, table):
        self.table = table

    def __call__(self, a, b):
        return self.table[a, b]


def test_products_come_from_the_operator_where_no_table_was_kept(monkeypatch):
    monkeypatch.setattr(closure, "LARGEST_TABLE", 0)
    finite = closed(SECOND)
    assert certify(finite, SECOND, "tree", SECOND.monoid).holds
    with pytest.raises(ValueError, match="give the operator"):
        certify(finite, SECOND, "tree")


def test_a_certificate_is_read_as_it_was_written(tmp_path):
    found = certify(closed(SECOND), SECOND, task="second-minimum", seed=3)
    found.save(tmp_path / "proof.json")
    assert Certificate.load(tmp_path / "proof.json") == found
    assert found.about == {"task": "second-minimum", "seed": 3}
    (tmp_path / "other.json").write_text('{"version": 0}')
    with pytest.raises(ValueError, match="no certificate of version 1"):
        Certificate.load(tmp_path / "other.json")


def test_differences_name_what_changed_but_not_the_time_it_took():
    found = certify(closed(SECOND), SECOND)
    again = dataclasses.replace(found, seconds=99.0)
    assert found.differences(again) == []
    assert found.differences(dataclasses.replace(again, wrong=3)) == ["wrong was 0, is 3"]


def test_a_fingerprint_changes_with_any_weight_and_with_annealing():
    op = FiniteSelection(4)
    first = fingerprint(op)
    assert fingerprint(op) == first
    op.anneal(hard=True)
    hard = fingerprint(op)
    with torch.no_grad():
        op.own[0, 0] = 1e-30
    assert len({first, hard, fingerprint(op)}) == 3


def test_a_target_needs_no_more_states_than_tell_answers_apart():
    assert len(target_classes(FIVE, torch.arange(2)).monoid) == 1 + 5


def test_answers_and_grades_are_asked_for():
    finite = close(SumModulo(5), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="give it some"):
        certify(finite, FIVE)
    with pytest.raises(ValueError, match="grade"):
        certify(finite.answering(lambda state: state), FIVE, "trees")


def test_inside_the_bound_of_rounding_nothing_is_proved():
    found = certify(closed(SECOND), SECOND)
    assert found.with_margin(0.5).holds
    unproved = found.with_margin(0.0)
    assert (unproved.holds, unproved.wrong) == (False, 0)
    assert "rounding" in unproved.counterexamples[-1]
