"""Our aggregators dropped into PyG's layers, as `aggr=` and as readouts."""

import pytest
import torch
from aggr.cases import CHANNELS, MONOIDS, RECURRENT, by_hand, every, make, normal, stirred
from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import (
    GATConv,
    GINConv,
    HeteroConv,
    PNAConv,
    SAGEConv,
    Sequential,
    TransformerConv,
)
from torch_geometric.nn.aggr import DegreeScalerAggregation, MultiAggregation
from torch_geometric.utils import softmax

from treefold import record_penalties

#   0 → 1 ← 2,  3 → 0,  1 → 3 (twice),  4 alone; edges are not sorted by target.
EDGES = torch.tensor([[1, 0, 3, 2, 1], [3, 1, 0, 1, 3]])
NUM_NODES = 5
X = normal(NUM_NODES, CHANNELS)
DEGREES = torch.tensor([1, 1, 2])

learned = pytest.mark.parametrize("name", RECURRENT + MONOIDS)
shape_keeping = pytest.mark.parametrize(
    "name", ["sum", "mean", "max", "min", "std", *RECURRENT, *MONOIDS]
)


def neighbours(messages, node):
    return messages[EDGES[1] == node]


def assert_trains(module, *inputs):
    """A forward and a backward in training that reach every parameter and the nodes."""
    module.train()
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    with record_penalties():
        out = module(*leaves)
    out.square().sum().backward()
    for parameter in module.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    assert leaves[0].grad.any()


@shape_keeping
def test_sage_by_hand(name):
    conv = stirred(SAGEConv(CHANNELS, 3, aggr=make(name))).double().eval()
    aggregated = torch.stack(
        [
            by_hand(name, conv.aggr_module, neighbours(X[EDGES[0]], node))
            for node in range(NUM_NODES)
        ]
    )
    expected = conv.lin_l(aggregated) + conv.lin_r(X)
    torch.testing.assert_close(conv(X, EDGES), expected)
    assert_trains(conv, X, EDGES)


@shape_keeping
def test_gin_by_hand(name):
    conv = GINConv(nn.Linear(CHANNELS, 3), train_eps=True, aggr=make(name))
    conv = stirred(conv).double().eval()
    aggregated = torch.stack(
        [
            by_hand(name, conv.aggr_module, neighbours(X[EDGES[0]], node))
            for node in range(NUM_NODES)
        ]
    )
    torch.testing.assert_close(conv(X, EDGES), conv.nn(aggregated + (1 + conv.eps) * X))
    assert_trains(conv, X, EDGES)


@shape_keeping
def test_gat_with_heads_by_hand(name):
    conv = GATConv(6, CHANNELS, heads=2, aggr=make(name), add_self_loops=False, bias=False)
    conv = stirred(conv).double().eval()
    x = normal(NUM_NODES, 6)
    values = conv.lin(x).view(NUM_NODES, 2, CHANNELS)
    scores = (values * conv.att_src).sum(-1)[EDGES[0]] + (values * conv.att_dst).sum(-1)[EDGES[1]]
    attention = softmax(nn.functional.leaky_relu(scores, 0.2), EDGES[1], num_nodes=NUM_NODES)
    messages = values[EDGES[0]] * attention.unsqueeze(-1)
    expected = torch.stack(
        [
            torch.cat(
                [
                    by_hand(name, conv.aggr_module, neighbours(messages[:, head], node))
                    for head in (0, 1)
                ]
            )
            for node in range(NUM_NODES)
        ]
    )
    torch.testing.assert_close(conv(x, EDGES), expected)
    assert_trains(conv, x, EDGES)


@shape_keeping
def test_transformer_with_heads(name):
    conv = stirred(TransformerConv(6, CHANNELS, heads=2, aggr=make(name))).double().eval()
    x = normal(NUM_NODES, 6)
    out = conv(x, EDGES)
    assert out.shape == (NUM_NODES, 2 * CHANNELS)
    empty = by_hand(name, conv.aggr_module, X[:0]).repeat(2)
    torch.testing.assert_close(out[4], empty + conv.lin_skip(x)[4])
    shuffled = torch.tensor([2, 0, 4, 1, 3])  # keeps the order of edges within each target
    torch.testing.assert_close(conv(x, EDGES[:, shuffled]), out)
    assert_trains(conv, x, EDGES)


@shape_keeping
@pytest.mark.parametrize("towers", [1, 2])
def test_pna_conv_with_towers(name, towers):
    conv = (
        PNAConv(
            CHANNELS * towers,
            8,
            aggregators=[make(name), "max"],
            scalers=["identity", "amplification"],
            deg=DEGREES,
            towers=towers,
            divide_input=True,
        )
        .double()
        .eval()
    )
    x = normal(NUM_NODES, CHANNELS * towers)
    assert conv(x, EDGES).shape == (NUM_NODES, 8)
    assert_trains(conv, x, EDGES)


@learned
def test_hetero_conv(name):
    conv = (
        HeteroConv(
            {
                ("user", "likes", "item"): SAGEConv((CHANNELS, CHANNELS), 3, aggr=make(name)),
                ("item", "of", "user"): SAGEConv((CHANNELS, CHANNELS), 3, aggr=make(name, seed=1)),
            }
        )
        .double()
        .eval()
    )
    users, items = X[:3], X[3:]
    likes, of = torch.tensor([[0, 2, 1], [1, 1, 1]]), torch.tensor([[0, 1], [2, 2]])
    out = conv(
        {"user": users, "item": items},
        {("user", "likes", "item"): likes, ("item", "of", "user"): of},
    )
    layer = conv.convs[("user", "likes", "item")]
    expected = layer.lin_l(by_hand(name, layer.aggr_module, users[[0, 2, 1]])) + layer.lin_r(
        items[1]
    )
    torch.testing.assert_close(out["item"][1], expected)
    (out["item"].square().sum() + out["user"].square().sum()).backward()
    assert all(parameter.grad is not None for parameter in conv.parameters())


@every
def test_beside_pygs_own_in_multi_aggregation(name):
    both = MultiAggregation([make(name), "sum"]).eval()
    out = both(X[EDGES[0]], EDGES[1], dim_size=NUM_NODES)
    ours, theirs = out[:, :-CHANNELS], out[:, -CHANNELS:]
    torch.testing.assert_close(ours, make(name)(X[EDGES[0]], EDGES[1], dim_size=NUM_NODES))
    torch.testing.assert_close(theirs, torch.zeros_like(X).index_add(0, EDGES[1], X[EDGES[0]]))


@learned
def test_multi_aggregation_in_a_layer(name):
    conv = SAGEConv(CHANNELS, 3, aggr=MultiAggregation([make(name), "sum", "mean"])).double()
    assert conv.lin_l.in_channels == 3 * CHANNELS
    assert_trains(conv, X, EDGES)


@shape_keeping
def test_scaled_by_degrees(name):
    scaled = (
        DegreeScalerAggregation(make(name), ["identity", "linear"], deg=DEGREES).double().eval()
    )
    out = scaled(X[EDGES[0]], EDGES[1], dim_size=NUM_NODES)
    plain = make(name)(X[EDGES[0]], EDGES[1], dim_size=NUM_NODES)
    degree = torch.bincount(EDGES[1], minlength=NUM_NODES).unsqueeze(1) / (5 / 4)
    torch.testing.assert_close(out, torch.cat([plain, degree * plain], 1))


@every
def test_as_a_readout_over_batch(name):
    readout, batch = make(name), torch.tensor([0, 0, 0, 2, 2])
    out = readout(X, batch)
    for graph, rows in enumerate((X[:3], X[:0], X[3:])):
        torch.testing.assert_close(out[graph], by_hand(name, readout, rows), rtol=1e-6, atol=1e-9)


@learned
def test_two_layers_and_a_readout_in_pygs_sequential(name):
    model = Sequential(
        "x, edge_index, batch",
        [
            (SAGEConv(CHANNELS, CHANNELS, aggr=make(name)), "x, edge_index -> x"),
            nn.ReLU(),
            (SAGEConv(CHANNELS, CHANNELS, aggr=make(name)), "x, edge_index -> x"),
            (make(name), "x, batch -> x"),
            nn.Linear(CHANNELS, 1),
        ],
    ).double()
    assert_trains(model, X, EDGES, torch.tensor([0, 0, 0, 1, 1]))


@learned
def test_edges_may_be_an_edge_index_or_a_sparse_matrix(name):
    conv = stirred(SAGEConv(CHANNELS, 3, aggr=make(name))).double().eval()
    edges = torch.tensor([[1, 3, 0, 2], [0, 0, 1, 3]])  # sorted by target, none twice
    expected = conv(X, edges)
    sparse = torch.sparse_coo_tensor(
        edges.flip(0), torch.ones(4).double(), (NUM_NODES, NUM_NODES), check_invariants=True
    )
    sorted_edges = EdgeIndex(edges, sparse_size=(NUM_NODES, NUM_NODES), sort_order="col")
    for given in (sorted_edges, sorted_edges.fill_cache_(), sparse.coalesce()):
        torch.testing.assert_close(conv(X, given), expected)


@learned
def test_resetting_a_layer_resets_its_aggregator(name):
    conv = SAGEConv(CHANNELS, 3, aggr=make(name)).double()
    before = [parameter.clone() for parameter in conv.aggr_module.parameters()]
    conv.reset_parameters()
    after = conv.aggr_module.parameters()
    assert any(not torch.equal(*pair) for pair in zip(before, after, strict=True))


@every
def test_a_layer_over_no_edges_gives_every_node_the_empty_set(name):
    conv = stirred(SAGEConv(CHANNELS, 3, aggr=make(name), root_weight=False)).double()
    conv.lin_l = nn.Identity()
    out = conv.eval()(X, EDGES[:, :0])
    empty = by_hand(name, conv.aggr_module, X[:0])
    torch.testing.assert_close(out, empty.expand_as(out))
