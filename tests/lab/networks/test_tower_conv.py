"""Towers against the definition: one edge, one tower, one node at a time."""

from functools import partial

import pytest
import torch
from lab.networks.graphs import random_graph

import treefold
from treefold.lab.networks import GraphLayout, TowerConv, with_mean_log_degree
from treefold.lab.networks.tower_conv import to_each


def by_definition(conv, x, edges, edge_rows=None, mixed=True):
    """Every message by itself from the concatenated pair; every node by itself."""
    if edge_rows is None:
        edge_rows = x.new_zeros(edges.shape[1], 0)
    towers = len(conv.message.weight)
    width = conv.message.weight.shape[2]
    rows = []
    for node in range(len(x)):
        parts = []
        for tower in range(towers):
            share = slice(tower * width, (tower + 1) * width) if conv.divide else slice(None)
            incoming = (edges[1] == node).nonzero().squeeze(1)
            pairs = [
                torch.cat([x[node, share], x[edges[0, edge], share], edge_rows[edge]])
                for edge in incoming
            ]
            inputs = conv.message.weight.shape[1]
            stacked = torch.stack(pairs) if pairs else x.new_zeros(0, inputs)
            messages = stacked @ conv.message.weight[tower] + conv.message.bias[tower]
            aggregate = conv.aggregators[tower % len(conv.aggregators)]
            found = aggregate(messages, torch.zeros(len(messages), dtype=torch.long), dim_size=1)
            joined = torch.cat([x[node, share], found[0]])
            parts.append(joined @ conv.update.weight[tower] + conv.update.bias[tower])
        rows.append(torch.cat(parts))
    return conv.mix(torch.stack(rows)) if mixed else torch.stack(rows)


@pytest.mark.parametrize("name", ["sum", "max", "pna", "gru", "binary-gru"])
@pytest.mark.parametrize(("towers", "divide"), [(1, True), (2, True), (2, False)])
def test_a_convolution_is_message_aggregate_update_and_mix(name, towers, divide):
    conv = TowerConv(4, 6, partial(treefold.aggregator, name), towers, divide).double().eval()
    for parameter in conv.parameters():  # PNA begins so near to zero that all would agree
        torch.nn.init.normal_(parameter, std=0.5)
    _, edges = random_graph(7, 3)
    edges = edges[:, (edges[1] != 2) & (edges[0] != 2)]  # node 2 has no neighbours
    x = torch.randn(7, 4, dtype=torch.float64)
    found = conv(x, GraphLayout.of(7, edges).neighbours)
    torch.testing.assert_close(found, by_definition(conv, x, edges))


def test_learned_aggregators_are_one_for_each_tower_fixed_ones_serve_all():
    make = partial(treefold.aggregator, "binary-gru")
    assert len(TowerConv(8, 8, make, towers=4).aggregators) == 4
    assert len(TowerConv(8, 8, partial(treefold.aggregator, "pna"), towers=4).aggregators) == 1


@pytest.mark.parametrize("divide", [True, False])
def test_every_tower_gets_the_whole_row_of_an_edge(divide):
    make = partial(treefold.aggregator, "sum")
    conv = TowerConv(4, 6, make, 2, divide, edge_channels=3).double()
    for parameter in conv.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    _, edges = random_graph(7, 3)
    edges = edges[:, torch.argsort(edges[1], stable=True)]  # rows of edges come by receiver
    x, rows = torch.randn(7, 4).double(), torch.randn(edges.shape[1], 3).double()
    neighbours = GraphLayout.of(7, edges).neighbours
    found = conv(x, neighbours, lambda weight: rows @ weight)
    torch.testing.assert_close(found, by_definition(conv, x, edges, rows))
    with pytest.raises(ValueError, match="edge_channels is 3, but rows of edges: none"):
        conv(x, neighbours)


@pytest.mark.parametrize("outputs", [2, 8, 20])  # one product with a large matrix, or one each
def test_towers_have_their_own_maps_however_wide(outputs):
    x, weight = torch.randn(9, 3, 5), torch.randn(3, 5, outputs)
    found = to_each(x, weight)
    torch.testing.assert_close(found, torch.einsum("nti,tio->nto", x, weight))


@pytest.mark.parametrize(("channels", "out"), [(6, 8), (8, 6)])
def test_towers_must_divide_the_channels(channels, out):
    with pytest.raises(ValueError, match="4 towers cannot split"):
        TowerConv(channels, out, partial(treefold.aggregator, "sum"), towers=4)


def test_dense_maps_begin_as_pna_s():
    conv = TowerConv(8, 400, partial(treefold.aggregator, "sum"), divide=False)
    bound = (6 / (16 + 8)) ** 0.5 / 16
    assert float(conv.message.weight.detach().abs().max()) == pytest.approx(bound, rel=0.1)
    bound = (6 / 800) ** 0.5 / 400
    assert float(conv.mix[0].weight.detach().abs().max()) == pytest.approx(bound, rel=0.01)
    assert float(conv.mix[0].bias.detach().abs().max()) == 0


@pytest.mark.parametrize(
    ("name", "delta", "options", "expected"),
    [
        ("pna", 1.5, {}, {"mean_log": 1.5}),
        ("pna", 1.5, {"mean_log": 2.0}, {"mean_log": 2.0}),
        ("pna", None, {"associativity": 0.1}, {"associativity": 0.1}),
        ("sum", 1.5, {"associativity": 0.1}, {"associativity": 0.1}),
    ],
)
def test_pna_alone_gets_the_mean_log_degree_and_its_own_options_win(name, delta, options, expected):
    assert with_mean_log_degree(name, delta, options) == expected
