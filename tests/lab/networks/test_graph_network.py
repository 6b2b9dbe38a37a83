"""PNA's real-world network: its published size, its definition, and one graph at a time."""

import pytest
import torch
from lab.networks.graphs import random_graph, together
from lab.networks.test_tower_conv import by_definition

from treefold.fold import planning
from treefold.lab.networks import plain_network, tower_network
from treefold.lab.tasks import CIFAR10, MNIST, ZINC, Categories, Numbers

UNSCALED = {"scalers": ["identity"]}
PUBLISHED = [  # task, aggregator, options, channels, out channels, edge channels, parameters
    (ZINC, "pna", {}, 75, 70, 0, 94_995),
    (ZINC, "pna", {}, 70, 60, 50, 95_111),
    (CIFAR10, "pna", {}, 75, 70, 0, 93_507),
    (CIFAR10, "pna", {}, 75, 70, 50, 108_607),
    (MNIST, "pna", {}, 75, 70, 0, 93_357),
    (MNIST, "pna", {}, 75, 70, 50, 108_457),
    (ZINC, "pna", UNSCALED, 95, 90, 0, 94_910),
    (ZINC, "pna", UNSCALED, 90, 80, 50, 101_721),
    (CIFAR10, "pna", UNSCALED, 95, 90, 0, 93_027),
    (CIFAR10, "pna", UNSCALED, 95, 90, 50, 112_127),
    (MNIST, "pna", UNSCALED, 95, 90, 0, 92_837),
    (MNIST, "pna", UNSCALED, 95, 90, 50, 111_937),
    *((ZINC, name, {}, 110, 80, 0, 89_341) for name in ("sum", "max")),
    *((ZINC, name, {}, 100, 70, 50, 93_695) for name in ("sum", "max")),
    *((CIFAR10, name, {}, 110, 90, 0, 90_357) for name in ("sum", "max")),
    *((CIFAR10, name, {}, 110, 90, 20, 99_197) for name in ("sum", "max")),
    *((MNIST, name, {}, 110, 90, 0, 90_137) for name in ("sum", "max")),
    *((MNIST, name, {}, 110, 90, 20, 98_977) for name in ("sum", "max")),
]


def num_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("task", "name", "options", "width", "out", "edge", "count"), PUBLISHED)
def test_it_has_as_many_parameters_as_published(task, name, options, width, out, edge, count):
    made = tower_network(
        name,
        task.node_input,
        task().num_outputs,
        edges=task.edge_input if edge else None,
        channels=width,
        out_channels=out,
        edge_channels=edge,
        **options,
    )
    assert num_parameters(made) == count


def test_pna_on_zinc_with_undivided_first_layers_would_be_much_larger():
    undivided = tower_network("pna", ZINC.node_input, 1, divide=False)
    undivided.layers[-1] = tower_network("pna", ZINC.node_input, 1).layers[-1]
    assert num_parameters(undivided) == 433_395


def test_the_network_for_molhiv_has_as_many_as_the_leaderboard_says():
    at_the_time = Categories((119, 4, 12, 12, 10, 6, 6, 2, 2))  # one chirality less than today
    assert num_parameters(plain_network("pna", at_the_time, 1)) == 326_081


def graphs_with_edges(sizes):
    """A batch of random graphs, with categories on nodes and two numbers on edges."""
    x, edges, batch = together([random_graph(size, seed) for seed, size in enumerate(sizes)])
    generator = torch.Generator().manual_seed(0)
    edge_attr = torch.randn(edges.shape[1], 2, generator=generator, dtype=torch.float64)
    return (x[:, :1] * 5).long(), edges, edge_attr, batch


def towers(name, **options):
    torch.manual_seed(0)
    made = tower_network(
        name,
        Categories((5,)),
        3,
        edges=Numbers(2),
        channels=8,
        out_channels=6,
        edge_channels=3,
        towers=2,
        num_layers=2,
        **options,
    )
    return stirred(made)


def plain(name):
    torch.manual_seed(0)
    return stirred(plain_network(name, Categories((5,)), 3, channels=8, num_layers=2, dropout=0.0))


def stirred(network):
    """In double and with weights that are far from PNA's small ones, and running statistics."""
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    for name, buffer in network.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            torch.nn.init.uniform_(buffer, 0.5, 1.5)
    return network.double().eval()


LEARNED = {"divide": False}
CASES = [("sum", {}), ("pna", {}), ("gru", LEARNED), ("binary-gru", LEARNED)]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_towers_are_normalised_mixed_and_added(name, options):
    network = towers(name, **options)
    x, edges, edge_attr, _ = graphs_with_edges([7])
    states = network.nodes(x)
    for layer, channels in zip(network.layers, (8, 6), strict=True):
        rows = network.edges(edge_attr)
        updated = by_definition(layer.conv, states, edges, rows, mixed=False) / 7**0.5
        mean, spread = layer.norm.running_mean, (layer.norm.running_var + 1e-5).sqrt()
        normal = (updated - mean) / spread * layer.norm.weight + layer.norm.bias
        mixed = torch.nn.functional.leaky_relu(layer.conv.mix[0](normal), 0.01)
        states = states + mixed if channels == 8 else mixed
    head = network.head
    hidden = torch.relu(head[2](torch.relu(head[0](states.sum(0)))))
    assert (head[0].out_features, head[2].out_features) == (3, 1)
    torch.testing.assert_close(network(x, edges, edge_attr)[0], head[4](hidden))


@pytest.mark.parametrize("name", ["max", "pna", "gru", "binary-gru"])
def test_the_plain_network_aggregates_states_as_they_are(name):
    network = plain(name)
    x, edges, _, _ = graphs_with_edges([7])
    states = network.nodes(x)
    for layer in network.layers:
        aggregated = [
            layer.aggregator(states[edges[0, edges[1] == node]], dim_size=1) for node in range(7)
        ]
        mapped = layer.update(torch.cat(aggregated))
        mean, spread = layer.norm.running_mean, (layer.norm.running_var + 1e-5).sqrt()
        states = states + torch.relu((mapped - mean) / spread * layer.norm.weight + layer.norm.bias)
    expected = network.head(states.mean(0))
    torch.testing.assert_close(network(x, edges)[0], expected)


@pytest.mark.parametrize("make", [lambda n: towers(n, divide=False), plain])
@pytest.mark.parametrize("name", ["pna", "gru", "binary-gru"])
def test_a_graph_gets_the_same_answer_whatever_else_is_in_the_batch(make, name):
    network, sizes = make(name), [5, 1, 9, 4]
    x, edges, edge_attr, batch = graphs_with_edges(sizes)
    together_ = network(x, edges, edge_attr, batch)
    for number in range(len(sizes)):
        nodes = (batch == number).nonzero().squeeze(1)
        inside = batch[edges[0]] == number
        alone = network(x[nodes], edges[:, inside] - nodes[0], edge_attr[inside])
        torch.testing.assert_close(alone[0], together_[number])


def test_the_order_of_edges_does_not_matter_to_fixed_aggregators_and_edges_keep_their_features():
    network = towers("pna")
    x, edges, edge_attr, batch = graphs_with_edges([6, 8])
    order = torch.randperm(edges.shape[1])
    torch.testing.assert_close(
        network(x, edges[:, order], edge_attr[order], batch), network(x, edges, edge_attr, batch)
    )
    assert not torch.allclose(
        network(x, edges, edge_attr[order], batch), network(x, edges, edge_attr, batch)
    )


def test_all_layers_fold_with_one_plan(monkeypatch):
    made, planned = [], planning.plan_balanced
    monkeypatch.setitem(
        planning.REPEATABLE, "balanced", lambda sizes: made.append(sizes) or planned(sizes)
    )
    x, edges, edge_attr, batch = graphs_with_edges([6, 8])
    towers("binary-gru", divide=False)(x, edges, edge_attr, batch)
    assert len(made) == 1


def test_edge_features_that_are_missing_or_too_few_are_refused():
    x, edges, edge_attr, batch = graphs_with_edges([5])
    with pytest.raises(ValueError, match="edge features: none; expected those of"):
        towers("sum")(x, edges, None, batch)
    with pytest.raises(ValueError, match=f"those of 1 edges; expected those of {edges.shape[1]}"):
        towers("sum")(x, edges, edge_attr[:1], batch)
    with pytest.raises(ValueError, match="0 layers; expected 1 or more"):
        tower_network("sum", Numbers(1), 1, num_layers=0)


def test_a_graph_may_have_no_edges_and_a_batch_empty_graphs():
    network = plain("binary-gru")
    x, none = torch.tensor([[1], [2]]), torch.zeros(2, 0, dtype=torch.int64)
    answers = network(x, none, None, torch.tensor([1, 1]), 3)
    assert answers.shape == (3, 3)
    torch.testing.assert_close(answers[0], answers[2])
    torch.testing.assert_close(answers[1], network(x, none)[0])
