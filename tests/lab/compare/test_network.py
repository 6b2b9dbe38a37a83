"""The small GNN: only the aggregator differs, and a graph's answer is its own."""

import pytest
import torch
from lab.compare.graph_sets import graph_classes, graph_numbers, one_graph
from torch.nn import functional as F

import treefold
from treefold.aggr import AGGREGATORS
from treefold.lab.compare import collect, dataset_of
from treefold.lab.compare.inputs import NumberEncoder
from treefold.lab.compare.memory import AliveBytes, peak_memory
from treefold.lab.compare.network import build_network
from treefold.lab.compare.scores import Scoring
from treefold.lab.runs.violations import violations_on

GRAPHS = dataset_of("mine", collect(graph_classes()))


def with_edges():
    graphs = graph_classes()
    for number, graph in enumerate(graphs):
        graph.x = (torch.arange(graph.num_nodes) + number).unsqueeze(1) % 4
        graph.edge_attr = torch.rand(graph.num_edges, 2)
    return dataset_of("mine", collect(graphs))


@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_graph_is_answered_alike_whatever_else_is_in_the_batch(name):
    data = with_edges()
    model = build_network(name, data, 8, 2).eval()
    together = model(data.train.take(torch.tensor([4, 0, 7])).graphs)
    alone = model(data.train.take(torch.tensor([0])).graphs)
    assert together.shape == (3, 2)
    torch.testing.assert_close(together[1:2], alone)


def test_a_layer_is_what_it_says():
    model = build_network("sum", GRAPHS, 8, 1)
    batch = GRAPHS.train.take(torch.tensor([3, 5])).graphs
    (layer,) = model.layers
    x = model.node_encoder(batch.x)
    arrived = torch.zeros_like(x)
    for source, target in batch.edge_index.t().tolist():
        arrived[target] = arrived[target] + F.relu(layer.send(x[source]))
    x = layer.norm(x + F.relu(layer.update(torch.cat([x, arrived], 1))))
    parts = x.split(batch.sizes.tolist())
    read = torch.stack([torch.cat([part.mean(0), part.amax(0)]) for part in parts])
    torch.testing.assert_close(model(batch), model.answer(read))


def test_nodes_are_answered_one_by_one():
    data = dataset_of("mine", collect([one_graph()]))
    model = build_network("max", data, 8, 2)
    assert model(data.train.take(torch.tensor([0])).graphs).shape == (60, 2)


def test_edge_features_reach_the_answers():
    data = with_edges()
    model = build_network("mean", data, 8, 1).eval()
    batch = data.train.take(torch.tensor([1])).graphs
    before = model(batch)
    batch.edge_attr.add_(1)
    assert not torch.allclose(before, model(batch))


def test_pna_refers_to_the_degrees_of_training_graphs():
    model = build_network("pna", GRAPHS, 8, 1)
    batch = GRAPHS.train.take(torch.arange(len(GRAPHS.train))).graphs
    expected = torch.log1p(batch.in_degrees.double()).mean()
    found = model.layers[0].aggregator.aggregation.avg_deg_log
    assert float(found) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "laws"),
    [
        ("sum", set()),
        ("gru", {"swap"}),
        ("binary-gru", {"identity", "commutativity", "associativity"}),
    ],
)
def test_law_violations_are_asked_of_the_rows_a_layer_meets(name, laws):
    model = build_network(name, GRAPHS, 8, 2).eval()
    batch = GRAPHS.train.take(torch.arange(20)).graphs
    with torch.no_grad():
        folded = list(model.folded(batch))
        assert len(folded) == 2
        found = violations_on(*folded[1])
    assert set(found) == laws
    assert all(value > 1e-4 for law, value in found.items() if law in ("swap", "associativity"))


def test_columns_of_any_scale_are_brought_to_one_and_shares_are_left():
    rows = torch.tensor([[1000.0, 0.0, 5.0], [3000.0, 1.0, 5.0]])
    coder = NumberEncoder(rows, 4)
    scaled = (rows - coder.shift) / coder.scale
    assert scaled.tolist() == [[-1, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize(
    ("graphs", "metric"), [(graph_classes, "accuracy"), (graph_numbers, "mae")]
)
def test_scores_are_those_of_all_answers_at_once(graphs, metric):
    data = dataset_of("mine", collect(graphs()))
    scoring, model = Scoring.of(data), build_network("sum", data, 8, 1).eval()
    batch = data.train.take(torch.arange(len(data.train)))
    answers = model(batch.graphs).detach()
    if metric == "accuracy":
        expected = float((answers.argmax(1) == batch.y).double().mean())
    else:
        y = data.answers("train")
        shown = answers * y.std(correction=0) + y.mean()
        expected = float((shown - batch.y).abs().mean())
    for batch_size in (7, 1000):
        found = scoring.score(model, data.train, batch_size, torch.device("cpu"))
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
    scoring, model = Scoring.of(data), build_network("max", data, 8, 1).eval()
    batch = data.train.take(torch.arange(len(data.train)))
    margin = model(batch.graphs).diff(dim=1)[:, 0]
    ordered = margin[batch.y == 1].unsqueeze(1) > margin[batch.y == 0]
    found = scoring.score(model, data.train, 64, torch.device("cpu"))
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


def test_the_peak_is_what_a_step_holds_at_once():
    with AliveBytes() as alive:
        x = torch.zeros(1000, 1000, requires_grad=True)
        kept = (x * 2).exp().exp()  # both exponentials are needed for the gradient
        kept.sum().backward()
    # x, two exponentials, and two gradients on the way back
    assert alive.peak == pytest.approx(5 * 4e6, rel=1e-3)
    before = alive.now
    del x, kept
    assert alive.now == before - 3 * 4_000_000  # x, its gradient and the last exponential


def test_the_peak_does_not_depend_on_what_was_folded_before():
    op = treefold.BinaryGRU(8)

    def peak(size):
        x, plan = torch.randn(size, 8, requires_grad=True), treefold.plan_tree([size])
        with peak_memory(torch.device("cpu")) as found:
            treefold.tree_reduce(op, x, plan).sum().backward()
        return found.num_bytes

    peak(60)  # compiles
    alone = peak(60)
    peak(100)
    assert peak(60) == alone


def test_laws_are_asked_of_rows_as_they_are_folded():
    aggregator = treefold.LCMAggregation(8, project=torch.nn.Linear(4, 8)).eval()
    groups = treefold.Groups.from_sizes([3, 5])
    assert violations_on(aggregator, torch.randn(8, 4), groups)["associativity"] > 0
