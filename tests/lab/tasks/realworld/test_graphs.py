"""A store of graphs: any batch is what its graphs are alone."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from treefold.lab.tasks import GraphStore
from treefold.lab.tasks.realworld.graphs import RawGraph, stacked


@st.composite
def raw_graphs(draw):
    size = draw(st.integers(1, 5))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=8))
    return RawGraph(
        x=np.array(draw(st.lists(st.integers(0, 99), min_size=size, max_size=size)))[:, None],
        edge_index=np.array(edges, np.int64).reshape(-1, 2).T,
        edge_attr=np.arange(len(edges))[:, None],
        y=draw(st.integers(0, 9)),
    )


@given(st.lists(raw_graphs(), min_size=1, max_size=5), st.data())
def test_a_batch_is_its_graphs_one_after_the_other(raw, data):
    store = GraphStore.from_arrays(stacked(raw, np.int64))
    chosen = data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=6))
    batch = store.take(torch.tensor(chosen, dtype=torch.long))
    x, edges, y, shift = [], [], [], 0
    for number in chosen:
        graph = raw[number]
        x += graph.x[:, 0].tolist()
        triples = zip(*graph.edge_index.tolist(), graph.edge_attr[:, 0].tolist(), strict=True)
        edges += sorted(((a + shift, b + shift, e) for a, b, e in triples), key=lambda t: t[1])
        y.append(graph.y)
        shift += len(graph.x)
    assert batch.x[:, 0].tolist() == x
    assert batch.y.tolist() == y
    assert torch.cat([batch.edge_index.t(), batch.edge_attr], 1).tolist() == list(map(list, edges))
    assert batch.sizes.tolist() == [len(raw[number].x) for number in chosen]
    assert batch.groups.sizes.equal(batch.sizes)


@given(st.lists(raw_graphs(), min_size=1, max_size=5), st.data())
def test_a_smaller_store_gives_the_same_graphs(raw, data):
    store = GraphStore.from_arrays(stacked(raw, np.int64))
    chosen = torch.tensor(data.draw(st.permutations(range(len(raw)))))[:2]
    few = store.only(chosen).take(torch.arange(len(chosen)))
    same = store.take(chosen)
    for name in ("x", "edge_index", "edge_attr", "y", "sizes"):
        assert getattr(few, name).equal(getattr(same, name))


@given(st.lists(raw_graphs(), min_size=1, max_size=5))
def test_degrees_of_a_store_are_those_of_all_its_graphs(raw):
    store = GraphStore.from_arrays(stacked(raw, np.int64))
    nodes = [(graph.edge_index, node) for graph in raw for node in range(len(graph.x))]
    assert store.out_degrees.tolist() == [(edges[0] == node).sum() for edges, node in nodes]
    assert store.in_degrees.tolist() == [(edges[1] == node).sum() for edges, node in nodes]


def graph(**changes):
    parts = {
        "x": np.zeros((2, 1)),
        "edge_index": np.array([[0], [1]]),
        "edge_attr": np.ones((1, 1)),
        "y": 0,
    }
    return RawGraph(**parts | changes)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (graph(edge_index=np.array([[0], [2]])), "a node that its graph does not have"),
        (graph(edge_index=np.array([[-1], [1]])), "a node that its graph does not have"),
        (graph(edge_attr=np.ones((2, 1))), "edge_attr has 3 entries, expected 2"),
        (graph(x=np.zeros((40_000, 1))), "40000 nodes; expected at most 32767"),
    ],
)
def test_graphs_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        stacked([graph(), wrong], np.int64)


def test_no_graphs_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        stacked([], np.int64)
