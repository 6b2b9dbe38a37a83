"""The small GNN: only the aggregator differs, and a graph's answer is its own."""

import pytest
import torch
from lab.experiments.graph_sets import graph_classes, one_graph
from torch.nn import functional as F

import treefold
from treefold.aggr import AGGREGATORS
from treefold.lab.networks import small_network
from treefold.lab.networks.small_gnn import NumberEncoder
from treefold.lab.runs.violations import violations_on
from treefold.lab.tasks import collect, dataset_of

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
    model = small_network(name, data, 8, 2).eval()
    together = model(data.train.take(torch.tensor([4, 0, 7])).graphs)
    alone = model(data.train.take(torch.tensor([0])).graphs)
    assert together.shape == (3, 2)
    torch.testing.assert_close(together[1:2], alone)


def test_a_layer_is_what_it_says():
    model = small_network("sum", GRAPHS, 8, 1)
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
    model = small_network("max", data, 8, 2)
    assert model(data.train.take(torch.tensor([0])).graphs).shape == (60, 2)


def test_edge_features_reach_the_answers():
    data = with_edges()
    model = small_network("mean", data, 8, 1).eval()
    batch = data.train.take(torch.tensor([1])).graphs
    before = model(batch)
    batch.edge_attr.add_(1)
    assert not torch.allclose(before, model(batch))


def test_pna_refers_to_the_degrees_of_training_graphs():
    model = small_network("pna", GRAPHS, 8, 1)
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
    model = small_network(name, GRAPHS, 8, 2).eval()
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


def test_laws_are_asked_of_rows_as_they_are_folded():
    aggregator = treefold.LCMAggregation(8, project=torch.nn.Linear(4, 8)).eval()
    groups = treefold.Groups.from_sizes([3, 5])
    assert violations_on(aggregator, torch.randn(8, 4), groups)["associativity"] > 0
