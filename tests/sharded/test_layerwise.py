"""Whole graphs in bounded memory, and training on parts of them."""

from importlib.util import find_spec
from itertools import islice

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, SAGEConv
from trees import seeded

import treefold
from treefold import LCMAggregation
from treefold.sharded import GraphChunks, NeighbourSampler, infer_layerwise

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
    with pytest.raises(ValueError, match="node 7 has 50 edges, but a chunk may have 10"):
        GraphChunks.of(edge_index, 50, 10)


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
