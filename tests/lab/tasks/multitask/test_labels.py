"""Labels: every answer against networkx, and graphs at the edge of what is defined."""

import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treefold.lab.tasks import VARIANTS, label_graph
from treefold.lab.tasks.multitask.labels import label


def labels_of(graphs, seed=0):
    """Our labels of networkx graphs of one size, with the values and sources they are for."""
    generator = torch.Generator().manual_seed(seed)
    adjacency = torch.stack([torch.from_numpy(nx.to_numpy_array(g, dtype=bool)) for g in graphs])
    values = torch.rand(adjacency.shape[:2], generator=generator, dtype=torch.float64)
    sources = torch.randint(adjacency.shape[1], (len(graphs),), generator=generator)
    return label(adjacency, values, sources), values, sources


def check_against_networkx(graphs):
    labels, values, sources = labels_of(graphs)
    for i, (graph, source) in enumerate(zip(graphs, sources.tolist(), strict=True)):
        hops = dict(nx.all_pairs_shortest_path_length(graph))
        eccentricities = [max(hops[node].values()) for node in graph]
        assert labels.distance[i].tolist() == [hops[source].get(node, 0) for node in graph]
        assert labels.eccentricity[i].tolist() == eccentricities
        assert labels.diameter[i] == max(eccentricities)
        assert labels.connected[i] == nx.is_connected(graph)
        assert labels.bipartite[i] == nx.is_bipartite(graph)
        x = values[i].tolist()
        laplacian = [sum(x[v] - x[u] for u in graph[v]) for v in graph]
        assert labels.laplacian[i].tolist() == pytest.approx(laplacian, abs=1e-12)
        eigenvalues = np.linalg.eigvals(nx.to_numpy_array(graph))  # not the symmetric solver
        assert labels.spectral_radius[i] == pytest.approx(np.abs(eigenvalues).max(), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 25), density=st.floats(0, 1), seed=st.integers(0, 2**20))
@example(n=1, density=0.0, seed=0)
@example(n=2, density=0.0, seed=0)
@example(n=2, density=1.0, seed=0)
def test_random_graphs_have_the_labels_of_networkx(n, density, seed):
    check_against_networkx([nx.gnp_random_graph(n, density, seed + i) for i in range(3)])


@pytest.mark.parametrize("n", [15, 24, 99])
def test_long_paths_cycles_and_trees_have_the_labels_of_networkx(n):
    two_halves = nx.disjoint_union(nx.path_graph(n // 2), nx.cycle_graph(n - n // 2))
    graphs = [nx.path_graph(n), nx.cycle_graph(n), nx.star_graph(n - 1), two_halves]
    check_against_networkx([*graphs, nx.random_labeled_tree(n, seed=1)])


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 24), density=st.floats(0, 1), seed=st.integers(0, 2**20))
def test_the_published_label_is_that_of_squaring_the_adjacency_matrix(n, density, seed):
    graph = nx.gnp_random_graph(n, density, seed)
    power = nx.to_numpy_array(graph)
    for _ in range(1 + math.ceil(math.log2(n))):
        power = np.sign(power @ power)
    labels, *_ = labels_of([graph])
    published = VARIANTS["published"].connected(labels.connected, labels.bipartite)
    assert published.item() == bool((power > 0).all())


def test_variants_differ_on_bipartite_graphs_only():
    both_ways = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    for edges, published in ((both_ways, 0.0), (triangle, 1.0)):
        for variant, connected in (("published", published), ("corrected", 1.0)):
            assert label_graph(edges, torch.rand(3), 0, variant).graph_y[0] == connected


def test_one_node_and_graphs_without_edges_have_defined_labels():
    no_edges = torch.empty(2, 0, dtype=torch.int64)
    one = label_graph(no_edges, torch.tensor([0.5]), 0, "corrected")
    assert one.x.tolist() == [[1.0, 0.5]]
    assert one.node_y.tolist() == [[0.0, 0.0, 0.0]]
    assert one.graph_y.tolist() == [1.0, 0.0, 0.0]
    assert label_graph(no_edges, torch.tensor([0.5]), 0).graph_y.tolist() == [0.0, 0.0, 0.0]
    three = label_graph(no_edges, torch.rand(3), 2, "corrected")
    assert three.node_y.tolist() == [[0.0, 0.0, 0.0]] * 3
    assert three.graph_y.tolist() == [0.0, 0.0, 0.0]


def test_a_graph_of_your_own_is_labelled_and_its_edges_are_sorted_and_counted_once():
    edges = torch.tensor([[2, 1, 1, 0, 1], [1, 2, 0, 1, 2]])  # the path 0 - 1 - 2
    graph = label_graph(edges, torch.tensor([0.25, 0.5, 1.0]), 0)
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.x.tolist() == [[1.0, 0.25], [0.0, 0.5], [0.0, 1.0]]
    assert graph.node_y.tolist() == [[0.0, 2.0, -0.25], [1.0, 1.0, -0.25], [2.0, 2.0, 0.5]]
    assert graph.graph_y.tolist() == pytest.approx([0.0, 2.0, math.sqrt(2)])
    assert graph.num_nodes == 3


EDGE = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("edge_index", "values", "source", "variant", "message"),
    [
        (EDGE[:, :1], torch.rand(2), 0, "published", "edge 0 -> 1 but not 1 -> 0.*to_undirected"),
        (torch.tensor([[1], [1]]), torch.rand(2), 0, "published", "node 1 to itself.*remove_self"),
        (EDGE, torch.rand(1), 0, "published", "names node 1, but there are 1 nodes"),
        (EDGE - 1, torch.rand(2), 0, "published", "names node -1, but there are 2"),
        (EDGE, torch.rand(2), 2, "published", "source is node 2; expected one from 0 to 1"),
        (EDGE, torch.tensor([0.5, math.nan]), 0, "published", "value is not finite"),
        (EDGE, torch.rand(2), 0, "fixed", "unknown variant 'fixed'"),
        (EDGE, torch.rand(2, 1), 0, "published", r"values have shape \(2, 1\)"),
        (EDGE[0], torch.rand(2), 0, "published", r"of shape \(2,\); expected integers of shape"),
        (EDGE.double(), torch.rand(2), 0, "published", "edge_index is torch.float64"),
        (EDGE[:, :0], torch.rand(0), 0, "published", "with at least one node"),
    ],
)
def test_what_has_no_labels_is_refused(edge_index, values, source, variant, message):
    with pytest.raises(ValueError, match=message):
        label_graph(edge_index, values, source, variant)
