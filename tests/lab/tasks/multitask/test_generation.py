"""Generation: the seed counter, rejection, and the perturbation of edges."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.lab.tasks.multitask.drawing import GraphStream, draw_graphs, perturb
from treefold.lab.tasks.multitask.families import FAMILIES, Seeded, draw_family


def test_the_first_training_graph_is_the_published_one():
    stream = GraphStream(1234)
    graph = stream.draw(15)
    assert FAMILIES[graph.family].name == "lobster"
    assert (stream.counter, stream.rejected) == (1236, 1)
    assert graph.adjacency.sum() / 2 == 13


def test_a_retry_takes_the_next_seed_and_keeps_the_family_that_its_first_seed_drew():
    stream = GraphStream(1234)
    retried = 0
    for _ in range(60):
        first_seed, rejected = stream.counter + 1, stream.rejected
        graph = stream.draw(15)
        assert graph.family == draw_family(Seeded.from_seed(first_seed).numpy)
        assert stream.counter - first_seed == stream.rejected - rejected
        retried += stream.rejected > rejected
    assert retried > 3


@settings(max_examples=30, deadline=None)
@given(n=st.integers(3, 30), seed=st.integers(0, 2**20))
def test_graphs_are_undirected_without_loops_or_isolated_nodes_and_follow_from_the_seed(n, seed):
    graph, again = GraphStream(seed).draw(n), GraphStream(seed).draw(n)
    assert (graph.adjacency == graph.adjacency.T).all()
    assert not graph.adjacency.diagonal().any()
    assert graph.adjacency.any(1).all()
    assert ((graph.values >= 0) & (graph.values < 1)).all()
    assert 0 <= graph.source < n
    assert np.array_equal(graph.adjacency, again.adjacency)
    assert np.array_equal(graph.values, again.values)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_graphs_that_would_be_rejected_for_ever_are_refused(n):
    with pytest.raises(ValueError, match=f"a graph of {n} nodes; expected 3 or more"):
        GraphStream(0).draw(n)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 12), density=st.floats(0, 1), seed=st.integers(0, 2**20))
def test_perturbation_compares_each_pair_with_its_threshold(n, density, seed):
    stream = np.random.RandomState(seed)
    adjacency = nx.to_numpy_array(nx.gnp_random_graph(n, density, seed), dtype=bool)
    noise = stream.uniform(0, 0.5, (n, n))
    perturbed = perturb(adjacency, noise)
    edges, pairs = int(adjacency.sum()) // 2, n * (n - 1) // 2
    missing = pairs - edges
    for i in range(n):
        assert not perturbed[i, i]
        for j in range(i):
            of_pair = noise[i, j] + noise[j, i]
            if edges <= missing:
                limit = 0.9 if adjacency[i, j] else 0.1 * edges / missing
            else:
                limit = 0.9 + 0.1 * (edges - missing) / edges if adjacency[i, j] else 0.1
            assert perturbed[i, j] == perturbed[j, i] == (of_pair < limit)


def test_a_fiftieth_of_the_edges_go_and_not_a_tenth():
    stream = np.random.RandomState(0)
    path = nx.to_numpy_array(nx.path_graph(300), dtype=bool)
    kept = [
        (perturb(path, stream.uniform(0, 0.5, path.shape)) & path).sum() / path.sum()
        for _ in range(50)
    ]
    assert np.mean(kept) == pytest.approx(0.98, abs=0.003)


def test_a_complete_graph_stays_and_an_empty_one_too():
    noise = np.random.RandomState(0).uniform(0, 0.5, (9, 9))
    complete = ~np.eye(9, dtype=bool)
    assert np.array_equal(perturb(complete, noise), complete)
    assert not perturb(np.zeros((9, 9), dtype=bool), noise).any()


def test_a_split_says_where_the_next_one_starts():
    whole, first = draw_graphs((5, 6), 3, counter=10), draw_graphs((5,), 3, counter=10)
    second = draw_graphs((6,), 3, counter=int(first.counter))
    assert whole.counter == second.counter
    assert whole.rejected == first.rejected + second.rejected
    assert np.array_equal(whole.values, np.concatenate([first.values, second.values]))
    assert np.array_equal(whole.edges, np.concatenate([first.edges, second.edges]))
