"""Scores of a user's graphs: over all answers at once, next to those of a constant answer."""

import pytest
import torch
from lab.experiments.graph_sets import graph_classes, graph_numbers

from treefold.lab.experiments.your_graphs_scores import Scoring
from treefold.lab.networks import small_network
from treefold.lab.tasks import collect, dataset_of


@pytest.mark.parametrize(
    ("graphs", "metric"), [(graph_classes, "accuracy"), (graph_numbers, "mae")]
)
def test_scores_are_those_of_all_answers_at_once(graphs, metric):
    data = dataset_of("mine", collect(graphs()))
    scoring, model = Scoring.of(data), small_network("sum", data, 8, 1).eval()
    batch = data.train.take(torch.arange(len(data.train)))
    answers = model(batch.graphs).detach()
    if metric == "accuracy":
        expected = float((answers.argmax(1) == batch.y).double().mean())
    else:
        y = data.answers("train")
        shown = answers * y.std(correction=0) + y.mean()
        expected = float((shown - batch.y).abs().mean())
    for batch_size in (7, 1000):
        found = scoring.score(model, data.train, batch_size, torch.device("cpu")).measure
        assert found == pytest.approx(expected, rel=1e-5)


def test_constant_answers_are_the_commonest_class_and_the_median():
    classes, numbers = (dataset_of("m", collect(make())) for make in (graph_classes, graph_numbers))
    y, seen = classes.answers("test"), classes.answers("train")
    commonest = seen.bincount().argmax()
    assert Scoring.of(classes).constant(classes, "test") == pytest.approx(
        float((y == commonest).double().mean())
    )
    y, seen = numbers.answers("test"), numbers.answers("train")
    assert Scoring.of(numbers).constant(numbers, "test") == pytest.approx(
        float((y - seen.median()).abs().mean()), rel=1e-5
    )
    rare = dataset_of("m", collect(graph_classes()), None, "roc-auc")
    assert Scoring.of(rare).constant(rare, "test") == 0.5


def test_roc_auc_is_the_share_of_pairs_in_the_right_order():
    data = dataset_of("m", collect(graph_classes()), None, "roc-auc")
    scoring, model = Scoring.of(data), small_network("max", data, 8, 1).eval()
    batch = data.train.take(torch.arange(len(data.train)))
    margin = model(batch.graphs).diff(dim=1)[:, 0]
    ordered = margin[batch.y == 1].unsqueeze(1) > margin[batch.y == 0]
    found = scoring.score(model, data.train, 64, torch.device("cpu")).measure
    assert found == pytest.approx(float(ordered.double().mean()), abs=1e-6)


def test_several_numbers_are_scored_in_deviations_of_each():
    graphs = graph_numbers()
    for graph in graphs:
        graph.y = torch.cat([graph.y, 1e4 * graph.y]).view(1, 2)
    data = dataset_of("m", collect(graphs))
    one = dataset_of("m", collect(graph_numbers()))
    spread = float(one.answers("train").std(correction=0))
    expected = Scoring.of(one).constant(one, "test") / spread
    assert Scoring.of(data).constant(data, "test") == pytest.approx(expected, rel=1e-4)
