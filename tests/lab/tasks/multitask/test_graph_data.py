"""Labelled graphs: taken, cut by size and one by one."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.lab.tasks import TARGETS, MultiTask
from treefold.lab.tasks.multitask.drawing import draw_graphs
from treefold.lab.tasks.multitask.targets import assemble

DRAWN = draw_graphs((4, 6, 5), 4, counter=77)
DATA = assemble(DRAWN, "published")


def one_by_one(data):
    """Each graph on its own, found by the graph of each node."""
    for number in range(len(data)):
        nodes = data.groups.index == number
        edges = data.edge_index[:, nodes[data.edge_index[0]]] - nodes.nonzero()[0]
        yield SimpleNamespace(
            x=data.x[nodes],
            edge_index=edges,
            node_y=data.node_y[nodes],
            graph_y=data.graph_y[number],
        )


def same(graph, other):
    return all(
        torch.equal(getattr(graph, name), getattr(other, name))
        for name in ("x", "edge_index", "node_y", "graph_y")
    )


def test_the_graphs_are_those_that_were_drawn():
    assert DATA.sizes.tolist() == [4] * 4 + [6] * 4 + [5] * 4
    start = pair = 0
    for number, graph in enumerate(one_by_one(DATA)):
        n, num_pairs = len(graph.x), int(DRAWN.num_edges[number])
        pairs = DRAWN.edges[pair : pair + num_pairs].tolist()
        assert graph.edge_index.T.tolist() == sorted([*pairs, *([b, a] for a, b in pairs)])
        assert graph.x[:, 0].nonzero().tolist() == [[DRAWN.sources[number]]]
        assert graph.x[:, 1].tolist() == DRAWN.values[start : start + n].tolist()
        assert graph.node_y.tolist() == DRAWN.node_labels[start : start + n].tolist()
        assert graph.graph_y[1:].tolist() == DRAWN.graph_labels[number, 2:].tolist()
        start, pair = start + n, pair + num_pairs


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, len(DATA) - 1)))
def test_taken_graphs_are_the_graphs_with_these_numbers(numbers):
    taken, all_graphs = DATA.take(torch.tensor(numbers, dtype=torch.int64)), [*one_by_one(DATA)]
    assert len(taken) == len(numbers)
    assert all(same(g, all_graphs[n]) for g, n in zip(one_by_one(taken), numbers, strict=True))
    assert taken.families.tolist() == [DRAWN.families[n] for n in numbers]


def test_batches_by_size_hold_every_graph_once_and_the_smallest_come_first():
    batches = DATA.by_size()
    assert [batch.sizes.unique().tolist() for batch in batches] == [[4], [5], [6]]
    graphs, order = [*one_by_one(DATA)], [*range(4), *range(8, 12), *range(4, 8)]
    together = [graph for batch in batches for graph in one_by_one(batch)]
    assert all(same(g, graphs[n]) for g, n in zip(together, order, strict=True))


def test_degrees_count_neighbours():
    degrees = torch.zeros(DATA.x.shape[0], dtype=torch.int64)
    for end in DATA.edge_index[1].tolist():
        degrees[end] += 1
    assert torch.equal(DATA.degrees, degrees)


def test_everything_moves_to_a_device():
    moved = DATA.to("meta")
    tensors = [getattr(moved, name) for name in DATA.__dataclass_fields__]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert same(DATA.to("cpu"), DATA)


def test_a_task_s_split_is_in_float32_unless_asked_otherwise(cache):
    task = MultiTask(num_train=20, num_validation=5, num_test=5, num_extrapolation=5)
    assert task.split("train", cache).node_y.dtype == torch.float32
    train = task.split("train", cache, torch.float64)
    raw, maxima = task.raw_split("train", cache), task.maxima(cache)
    assert train.x.dtype == train.graph_y.dtype == torch.float64
    assert len(maxima) == len(TARGETS)
    torch.testing.assert_close(train.node_y * maxima[:3], raw.node_y)
    torch.testing.assert_close(train.graph_y * maxima[3:], raw.graph_y)
    assert train.node_y.amax(0).tolist() == pytest.approx([1, 1, 1])
