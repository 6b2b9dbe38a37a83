"""Scores: six errors, each size counting the same, and two ways to average."""

import math

import pytest
import torch

from treefold.lab.tasks import TARGETS, GraphData, Scores, score
from treefold.lab.tasks.multitask.scores import (
    constant_baseline,
    mean_log_degree,
    target_maxima,
    target_means,
)


def two_sizes():
    """Two single edges and a path of three nodes, with targets that are easy to average."""
    edges = [(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4), (5, 6), (6, 5)]
    return GraphData(
        x=torch.zeros(7, 2),
        edge_index=torch.tensor(edges).T,
        node_y=torch.tensor([[0.0], [0.0], [4.0], [4.0], [6.0], [6.0], [6.0]]).expand(7, 3),
        graph_y=torch.tensor([[1.0], [3.0], [8.0]]).expand(3, 3),
        sizes=torch.tensor([2, 2, 3]),
        num_edges=torch.tensor([2, 2, 4]),
        families=torch.zeros(3, dtype=torch.int64),
    )


def test_means_are_over_the_graphs_of_a_size_and_then_over_sizes():
    assert target_means(two_sizes()).tolist() == [4.0] * 3 + [5.0] * 3
    assert target_maxima(two_sizes()).tolist() == [6.0] * 3 + [8.0] * 3


def test_errors_are_averaged_in_the_same_way():
    data = two_sizes()
    scores = score(torch.zeros(7, 3), torch.zeros(3, 3), to=data)
    assert scores.errors == pytest.approx([(8 + 36) / 2] * 3 + [(5 + 64) / 2] * 3)


def test_the_baseline_answers_the_training_mean():
    data = two_sizes()
    errors = constant_baseline(data, data).errors
    assert errors == pytest.approx([(8 + 4) / 2] * 3 + [(10 + 9) / 2] * 3)


def test_both_readings_of_an_average():
    scores = Scores((1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6))
    assert scores.log10 == pytest.approx(dict(zip(TARGETS, range(-1, -7, -1), strict=True)))
    assert scores.mean_log10 == pytest.approx(-3.5)
    assert scores.log10_mean == pytest.approx(math.log10(0.111111 / 6))


def test_a_perfect_answer_has_no_error_and_a_logarithm_of_minus_infinity():
    data = two_sizes()
    scores = score(data.node_y, data.graph_y, to=data)
    assert scores.errors == (0.0,) * 6
    assert scores.log10_mean == scores.mean_log10 == -math.inf


def test_answers_of_another_shape_are_refused():
    data = two_sizes()
    with pytest.raises(ValueError, match=r"graph answers have shape \(3, 1\); expected .*\(3, 3\)"):
        score(data.node_y, data.graph_y[:, :1], to=data)


def test_the_mean_log_degree_is_over_the_nodes_of_a_size_and_then_over_sizes():
    of_path = (2 * math.log(2) + math.log(3)) / 3
    assert mean_log_degree(two_sizes()) == pytest.approx((math.log(2) + of_path) / 2)


def test_answers_that_are_no_numbers_are_as_wrong_as_can_be():
    found = Scores((float("nan"), float("inf"), 1.0, 1.0, 1.0, 1.0))
    assert list(found.log10.values())[:3] == [math.inf, math.inf, 0.0]
    assert found.mean_log10 == found.log10_mean == math.inf
