"""Losses and measures of answers for graphs, against values worked out by hand."""

import math

import pytest
import torch

from treefold.lab.runs.answer_scores import measure_of, num_correct, score_answers


def test_the_absolute_error_is_the_mean_over_all_graphs():
    answers, wanted = torch.tensor([[1.0], [2.0], [-1.0]]), torch.tensor([0.0, 2.5, 1.0])
    found = score_answers("mae", answers, wanted)
    assert found.measure == found.loss == pytest.approx((1 + 0.5 + 2) / 3)


def test_the_area_is_the_share_of_pairs_in_the_right_order_ties_by_half():
    answers = torch.tensor([[2.0], [-1.0], [0.5], [0.5], [-3.0]])
    wanted = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0])
    # Of six pairs (positive, negative), five are in order and one is a tie.
    found = score_answers("roc-auc", answers, wanted)
    assert found.measure == pytest.approx(5.5 / 6)
    wrong = [math.log1p(math.exp(-a)) for a in (2, 1, 0.5, -0.5, 3)]  # the second and last are no
    assert found.loss == pytest.approx(sum(wrong) / 5, rel=1e-6)


def test_large_answers_are_still_told_apart():
    answers, wanted = torch.tensor([[20.0], [21.0], [22.0]]), torch.tensor([0.0, 1.0, 1.0])
    assert score_answers("roc-auc", answers, wanted).measure == 1.0


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_class_alone_has_no_area(label):
    found = score_answers("roc-auc", torch.zeros(3, 1), torch.full((3,), label))
    assert math.isnan(found.measure)
    assert found.loss == pytest.approx(math.log(2))


def test_accuracy_counts_graphs_not_classes():
    answers = torch.eye(3)[torch.tensor([0, 0, 0, 1, 2])]
    wanted = torch.tensor([0, 0, 0, 2, 2])
    assert score_answers("accuracy", answers, wanted).measure == pytest.approx(4 / 5)
    assert int(num_correct(answers, wanted)) == 4
    right, wrong = math.log(1 + 2 / math.e), math.log(math.e + 2)
    assert score_answers("accuracy", answers, wanted).loss == pytest.approx(
        (4 * right + wrong) / 5, rel=1e-6
    )


def test_errors_should_fall_and_the_others_rise():
    assert [measure_of(name).highest for name in ("mae", "roc-auc", "accuracy")] == [
        *(False, True, True)
    ]
    with pytest.raises(ValueError, match="unknown measure 'auc'; did you mean roc-auc"):
        measure_of("auc")
