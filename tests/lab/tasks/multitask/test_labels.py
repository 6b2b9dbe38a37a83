"""Labels: every answer against networkx, and graphs without edges."""

import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treefold.lab.tasks import VARIANTS
from treefold.lab.tasks.multitask.labels import label
from treefold.lab.tasks.multitask.targets import graph_targets


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


def graph_answers(graph, variant):
    labels, *_ = labels_of([graph])
    of_graph = (labels.connected, labels.bipartite, labels.diameter, labels.spectral_radius)
    return graph_targets(VARIANTS[variant], *of_graph)[0].tolist()


def test_variants_differ_on_bipartite_graphs_only():
    for graph, published in ((nx.path_graph(3), 0.0), (nx.complete_graph(3), 1.0)):
        assert graph_answers(graph, "published")[0] == published
        assert graph_answers(graph, "corrected")[0] == 1.0


def test_one_node_and_graphs_without_edges_have_defined_labels():
    assert graph_answers(nx.empty_graph(1), "corrected") == [1.0, 0.0, 0.0]
    assert graph_answers(nx.empty_graph(1), "published") == [0.0, 0.0, 0.0]
    assert graph_answers(nx.empty_graph(3), "corrected") == [0.0, 0.0, 0.0]
    labels, *_ = labels_of([nx.empty_graph(3)])
    for of_nodes in (labels.distance, labels.eccentricity, labels.laplacian):
        assert of_nodes.tolist() == [[0.0, 0.0, 0.0]]


def test_a_path_of_three_has_the_labels_known_by_hand():
    adjacency = torch.from_numpy(nx.to_numpy_array(nx.path_graph(3), dtype=bool))[None]
    labels = label(adjacency, torch.tensor([[0.25, 0.5, 1.0]]).double(), torch.tensor([0]))
    assert labels.distance.tolist() == [[0.0, 1.0, 2.0]]
    assert labels.eccentricity.tolist() == [[2.0, 1.0, 2.0]]
    assert labels.laplacian.tolist() == [[-0.25, -0.25, 0.5]]
    assert labels.spectral_radius.tolist() == pytest.approx([math.sqrt(2)])
