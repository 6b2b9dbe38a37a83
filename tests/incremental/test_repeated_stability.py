"""Folds that can be repeated are repeated in other merge orders, and the answers compared."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, SAGEConv
from trees import normal, seeded

from treefold.aggr import LCMAggregation, aggregator
from treefold.algebra import Sum
from treefold.distributed import infer_layerwise
from treefold.incremental import Chunk, StreamingFold, chunks_stability, graph_stability
from treefold.operators import BinaryGRU


def test_the_stability_of_chunks_is_that_of_a_stream_with_witnesses():
    op, encode, x = BinaryGRU(4).double(), nn.Linear(3, 4).double(), normal(60, 3)
    found = chunks_stability(op, lambda: x.split(16), encode=encode, generator=seeded())
    fold = StreamingFold(op, num_witnesses=4, generator=seeded())
    for rows in x.split(16):
        fold.feed(encode(rows))
    assert found.absolute.equal(fold.stability().absolute)
    assert found.absolute.shape == (4, 1)
    assert found.largest > 1e-6
    decoded = chunks_stability(
        op, lambda: x.split(16), 1, encode, generator=seeded(), decode=lambda state: 10 * state
    )
    torch.testing.assert_close(decoded.absolute, 10 * found.absolute)


def test_chunks_of_an_exact_monoid_are_stable():
    chunks = [Chunk(torch.randint(0, 99, (8, 2)), torch.arange(8) % 3) for _ in range(5)]
    assert chunks_stability(Sum(), lambda: chunks, 3).largest.tolist() == [0, 0, 0]


def graph():
    """The last node has no edges, the one before it one edge from a node with many."""
    source, target = torch.randint(0, 30, (2, 300), generator=seeded(1))
    edge = torch.tensor([[3], [30]])
    return normal(32, 4), torch.cat([torch.stack([source, target]), edge], 1)


def layers_of(make):
    torch.manual_seed(0)
    return [SAGEConv(4, 4, aggr=make()).double().eval() for _ in range(2)]


def stability_in_chunks(layers, **options):
    x, edge_index = graph()
    return graph_stability(
        lambda edges: infer_layerwise(layers, x, edges, 40_000), edge_index, **options
    )


def test_the_stability_of_a_graph_includes_earlier_layers():
    layers = layers_of(lambda: LCMAggregation(4))
    one = stability_in_chunks(layers[:1], generator=seeded())
    both = stability_in_chunks(layers, generator=seeded())
    assert both.absolute.shape == (4, 32)
    assert one.largest[:30].max() > 1e-6
    assert one.largest[30:].tolist() == [0, 0]  # one edge, no edges
    assert both.largest[30] > 1e-6  # but its neighbour has many
    assert both.largest[31] == 0


def test_layers_that_obey_the_laws_differ_by_rounding_only():
    exact = layers_of(lambda: aggregator("conjugated-sum", 4))
    attention = GATConv(4, 4).double().eval()
    assert stability_in_chunks([*exact, attention], generator=seeded()).largest.max() < 1e-9


def test_no_bracketings_measure_nothing():
    with pytest.raises(ValueError, match="0 bracketings measure nothing"):
        stability_in_chunks([], num_bracketings=0)
    with pytest.raises(ValueError, match="0 bracketings measure nothing"):
        chunks_stability(Sum(), list, num_bracketings=0)
