"""The largest graph first, and every edge where it belongs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lab.networks.graphs import random_graph, together

from treefold.lab.networks import GraphLayout
from treefold.lab.networks.graph_layout import inverse


def layout_of(sizes):
    graphs = [random_graph(size, seed) for seed, size in enumerate(sizes)]
    x, edges, batch = together(graphs)
    return GraphLayout.of(len(x), edges, batch, len(sizes)), edges, batch


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_nodes_and_edges_are_the_same_with_the_largest_graph_first(sizes):
    layout, edges, batch = layout_of(sizes)
    assert layout.sizes.tolist() == sorted(sizes, reverse=True)
    assert [sizes[graph] for graph in layout.graphs] == layout.sizes.tolist()
    assert batch[layout.nodes].tolist() == layout.graphs[layout.groups.index].tolist()
    back = layout.nodes[layout.neighbours.edge_index]
    assert sorted(back.T.tolist()) == sorted(edges.T.tolist())
    for node in range(sum(sizes)):  # the neighbours of a node keep their order
        assert back[0, back[1] == node].tolist() == edges[0, edges[1] == node].tolist()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_graphs_leave_from_the_end_the_smallest_first(sizes):
    layout, _, _ = layout_of(sizes)
    left = []
    for size, neighbours, stay in layout.leaving():
        assert neighbours.num_nodes == sum(s for s in sizes if s >= size)
        assert stay == sum(s for s in sizes if s > size)
        assert neighbours.source.numel() == 0 or int(neighbours.source.max()) < neighbours.num_nodes
        left.append(size)
    assert left == sorted(set(sizes))


def test_the_inverse_undoes_a_permutation():
    order = torch.tensor([2, 0, 3, 1])
    assert order[inverse(order)].tolist() == [0, 1, 2, 3]


def test_gcn_weights_are_those_of_its_formula():
    _, edges = random_graph(7, 0)
    layout = GraphLayout.of(7, edges)
    edge_index, weight = layout.neighbours.normalized
    dense = torch.zeros(7, 7).index_put((edge_index[1], edge_index[0]), weight, accumulate=True)
    with_loops = torch.zeros(7, 7).index_put((edges[1], edges[0]), torch.ones(())) + torch.eye(7)
    scale = with_loops.sum(1).rsqrt()
    torch.testing.assert_close(dense, scale[:, None] * with_loops * scale)


@pytest.mark.parametrize(
    ("edges", "batch", "message"),
    [
        ([[0, 1], [1, 5]], None, "names node 5; expected 0 to 3"),
        ([[0, -1], [1, 0]], None, "names node -1; expected 0 to 3"),
        ([[0, 1, 2]], None, r"shape \(1, 3\); expected integers of shape \[2, edges\]"),
        ([[0.0], [1.0]], None, "torch.float32"),
        ([[0, 1], [1, 2]], [0, 0, 1, 1], "edge 1 joins node 1 of graph 0 to node 2 of graph 1"),
        ([[0], [1]], [0, 1, 0, 1], "batch is not sorted"),
        ([[0], [1]], [0, 0, 0], "batch has 3 entries, but there are 4 nodes"),
    ],
)
def test_bad_graphs_are_refused_in_plain_words(edges, batch, message):
    given_batch = None if batch is None else torch.tensor(batch)
    with pytest.raises(ValueError, match=message):
        GraphLayout.of(4, torch.tensor(edges), given_batch)
