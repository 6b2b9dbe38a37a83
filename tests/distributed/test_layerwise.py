"""Whole graphs in bounded memory, and training on parts of them."""

from importlib.util import find_spec
from itertools import islice

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, GATv2Conv, SAGEConv, TransformerConv
from trees import seeded

import treefold
from treefold import LCMAggregation, plan_tree
from treefold.aggr import pyg_groups
from treefold.distributed import GraphChunks, NeighbourSampler, infer_layerwise
from treefold.fold import planning

NODES, EDGES, WIDTH = 200, 1500, 8


def graph():
    """A few hubs, many small nodes, some without edges."""
    target = (torch.rand(EDGES, generator=seeded(1)).pow(3) * (NODES - 5)).long()
    source = torch.randint(0, NODES, (EDGES,), generator=seeded(2))
    return torch.randn(NODES, WIDTH, generator=seeded(3)), torch.stack([source, target])


def sage():
    return SAGEConv((WIDTH, WIDTH), WIDTH, aggr=LCMAggregation(WIDTH)).eval()


def test_layers_in_chunks_are_layers_on_the_whole_graph():
    x, edge_index = graph()
    layers = [
        sage(),
        nn.ReLU(),
        GATConv((WIDTH, WIDTH), WIDTH, add_self_loops=False).eval(),
        sage(),
    ]
    whole = x
    for layer in layers:
        whole = layer(whole) if isinstance(layer, nn.ReLU) else layer((whole, whole), edge_index)
    out = infer_layerwise(layers, x, edge_index, budget_bytes=400 * 6 * WIDTH * 4)
    assert not out.requires_grad
    torch.testing.assert_close(out, whole.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("conv", [GATConv, GATv2Conv, TransformerConv, SAGEConv])
def test_pygs_layers_at_their_defaults_give_what_the_whole_graph_gives(conv):
    x, edge_index = graph()
    assert (edge_index[0] == edge_index[1]).any()  # self-loops that some layers take out, and add
    layers = [conv(WIDTH, WIDTH).eval(), conv(WIDTH, WIDTH).eval()]
    whole = layers[1](layers[0](x, edge_index), edge_index).detach()
    assert len(GraphChunks.of(edge_index, NODES, 400).chunks) > 3
    out = infer_layerwise(layers, x, edge_index, budget_bytes=400 * 6 * WIDTH * 4)
    torch.testing.assert_close(out, whole, rtol=1e-4, atol=1e-5)


def test_targets_come_first_among_the_sources():
    edge_index = torch.tensor([[3, 0, 1, 3, 2], [0, 0, 1, 1, 3]])
    first, second = GraphChunks.of(edge_index, 4, 6).chunks
    assert (first.nodes, second.nodes) == (slice(0, 2), slice(2, 4))
    assert first.sources.tolist() == [0, 1, 3]
    assert first.edge_index.tolist() == [[2, 0, 1, 2], [0, 0, 1, 1]]
    assert second.sources.tolist() == [2, 3]
    assert second.edge_index.tolist() == [[0], [1]]


def test_a_graph_without_nodes_has_an_answer_without_rows():
    x, edge_index = torch.zeros(0, WIDTH), torch.zeros(2, 0, dtype=torch.int64)
    layers = [sage(), nn.ReLU(), GATConv(WIDTH, 3).eval()]
    assert infer_layerwise(layers, x, edge_index, 1 << 20).shape == (0, 3)


def test_nodes_without_edges_count_against_the_budget():
    chunks = GraphChunks.of(torch.zeros(2, 0, dtype=torch.int64), 25, 10).chunks
    assert [chunk.nodes for chunk in chunks] == [slice(0, 10), slice(10, 20), slice(20, 25)]


def test_chunks_hold_whole_neighbourhoods_within_the_budget():
    _, edge_index = graph()
    chunks = GraphChunks.of(edge_index, NODES, 300).chunks
    assert all(chunk.edge_index.shape[1] <= 300 for chunk in chunks)
    assert sum(chunk.edge_index.shape[1] for chunk in chunks) == EDGES
    assert [chunk.nodes.start for chunk in chunks[1:]] == [
        chunk.nodes.stop for chunk in chunks[:-1]
    ]
    assert chunks[-1].nodes.stop == NODES


def test_a_hub_beyond_the_budget_is_named():
    edge_index = torch.stack([torch.arange(50), torch.full((50,), 7)])
    with pytest.raises(
        ValueError,
        match="node 7 has 50 edges and a self-loop, but a chunk may have 10; give at least 51",
    ):
        GraphChunks.of(edge_index, 50, 10)


def test_the_least_budget_for_a_hub_is_named_and_is_enough():
    x = torch.randn(50, WIDTH)
    edge_index = torch.stack([torch.arange(50), torch.full((50,), 7)])
    least = 51 * 6 * WIDTH * 4
    with pytest.raises(ValueError, match=f"node 7, whose 50 edges .* give at least {least:,}, or"):
        infer_layerwise([sage()], x, edge_index, least - 1)
    layer = sage()
    out = infer_layerwise([layer], x, edge_index, least)
    torch.testing.assert_close(out, layer(x, edge_index).detach())
    with pytest.raises(ValueError, match=f"give at least {3 * least:,}, or"):
        infer_layerwise([GATConv(WIDTH, WIDTH, heads=3)], x, edge_index, least)


def test_every_chunk_is_planned_once_for_all_layers(monkeypatch):
    x, edge_index = graph()
    planned = []

    def counting(sizes):
        planned.append(int(sizes.sum()))
        return planning.plan_balanced(sizes)

    monkeypatch.setitem(planning.REPEATABLE, "balanced", counting)
    infer_layerwise([sage(), nn.ReLU(), sage()], x, edge_index, 400 * 6 * WIDTH * 4)
    chunks = GraphChunks.of(edge_index, NODES, 400).chunks
    assert planned == [chunk.edge_index.shape[1] for chunk in chunks]
    assert len(planned) > 3


def test_sampled_neighbours_are_distinct_true_and_as_many_as_asked():
    _, edge_index = graph()
    edge_index = edge_index.unique(dim=1)
    seeds = torch.tensor([0, 3, 150, 199])
    found = NeighbourSampler(edge_index, NODES, [4, 3]).sample(seeds, seeded())
    assert found.nodes[:4].tolist() == seeds.tolist()
    assert len(found.nodes.unique()) == len(found.nodes)
    drawn = found.nodes[found.edge_index]
    assert len(drawn.unique(dim=1).T) == len(drawn.T)
    assert {tuple(edge) for edge in drawn.T.tolist()} <= {tuple(e) for e in edge_index.T.tolist()}
    degrees = torch.bincount(edge_index[1], minlength=NODES)
    taken = torch.bincount(drawn[1], minlength=NODES)
    assert taken[seeds].tolist() == degrees[seeds].clamp(max=4).tolist()
    others = drawn[1][~torch.isin(drawn[1], seeds)].unique()
    assert taken[others].tolist() == degrees[others].clamp(max=3).tolist()


def test_every_neighbour_is_as_likely_as_any_other():
    edge_index = torch.stack([torch.arange(1, 11), torch.zeros(10, dtype=torch.int64)])
    sampler, generator = NeighbourSampler(edge_index, 11, [4]), seeded()
    draws = [sampler.sample(torch.tensor([0]), generator).nodes[1:] for _ in range(4000)]
    often = torch.bincount(torch.cat(draws), minlength=11)[1:] / 4000
    assert float((often - 0.4).abs().max()) < 0.04  # five standard deviations


def batches_of_ours(x, edge_index):
    sampler, generator = NeighbourSampler(edge_index, NODES, [25]), seeded()
    while True:
        seeds = torch.randperm(NODES, generator=generator)[:64]
        part = sampler.sample(seeds, generator)
        yield x[part.nodes], part.edge_index, seeds


def batches_of_pyg(x, edge_index):
    from torch_geometric.data import Data  # noqa: PLC0415
    from torch_geometric.loader import NeighborLoader  # noqa: PLC0415

    graph = Data(x=x, edge_index=edge_index)
    while True:
        for batch in NeighborLoader(graph, [25], batch_size=64, shuffle=True):
            yield batch.x, batch.edge_index, batch.input_id


needs_pygs_loader = pytest.mark.skipif(
    not (find_spec("pyg_lib") or find_spec("torch_sparse")),
    reason="PyG's NeighborLoader needs pyg_lib or torch_sparse",
)


@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without")
@pytest.mark.parametrize(
    "batches", [batches_of_ours, pytest.param(batches_of_pyg, marks=needs_pygs_loader)]
)
def test_a_model_learns_from_sampled_neighbours(batches):
    """The label of a node is the largest first feature among its neighbours."""
    torch.manual_seed(0)
    x, edge_index = graph()
    label = torch.full((NODES,), -3.0).scatter_reduce(0, edge_index[1], x[edge_index[0], 0], "amax")
    conv, head = SAGEConv((WIDTH, WIDTH), WIDTH, aggr=LCMAggregation(WIDTH)), nn.Linear(WIDTH, 1)
    optimizer = torch.optim.Adam([*conv.parameters(), *head.parameters()], lr=0.01)
    losses = []
    for rows, edges, seeds in islice(batches(x, edge_index), 60):
        out = head(conv((rows, rows[: len(seeds)]), edges)).squeeze(1)
        loss = nn.functional.mse_loss(out, label[seeds])
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


@needs_pygs_loader
@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without")
def test_pyg_s_own_loader_with_all_neighbours_gives_what_the_whole_graph_gives():
    """Its neighbours come in another order, so this operator obeys all laws."""
    from torch_geometric.data import Data  # noqa: PLC0415
    from torch_geometric.loader import NeighborLoader  # noqa: PLC0415

    x, edge_index = graph()
    loader = NeighborLoader(Data(x=x, edge_index=edge_index), [-1], batch_size=50)
    conv = SAGEConv(WIDTH, WIDTH, aggr=treefold.aggregator("conjugated-sum", WIDTH)).eval()
    whole = conv((x, x), edge_index)
    for batch in loader:
        out = conv((batch.x, batch.x), batch.edge_index)[: batch.batch_size]
        torch.testing.assert_close(out, whole[batch.input_id], rtol=1e-4, atol=1e-5)


def test_seeds_and_fanouts_are_checked():
    _, edge_index = graph()
    with pytest.raises(ValueError, match="some seeds are the same"):
        NeighbourSampler(edge_index, NODES, [2]).sample(torch.tensor([1, 1]))
    with pytest.raises(ValueError, match=r"fanouts are \[\]"):
        NeighbourSampler(edge_index, NODES, [])


@pytest.mark.parametrize("num_layers", [1, 2])
def test_plans_are_kept_only_where_another_layer_needs_them(monkeypatch, num_layers):
    x, edge_index = graph()
    kept = []

    def counting(groups, bracketing, generator=None):
        kept.append(pyg_groups._shared.get() is not None)
        return plan_tree(groups.sizes, bracketing)

    monkeypatch.setattr("treefold.aggr.lcm.plan_of", counting)
    infer_layerwise([sage() for _ in range(num_layers)], x, edge_index, 1 << 20)
    assert kept
    assert all(kept) is (num_layers > 1)
