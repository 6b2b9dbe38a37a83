"""Sets that treefold 0.1 saved can still be loaded."""

import json
from pathlib import Path

import pytest
import torch

from treefold import algebra
from treefold.aggr import LCMAggregation
from treefold.fold import Groups
from treefold.incremental import DynamicAggregation, FoldTree, StreamingFold
from treefold.incremental.fingerprint import is_made_by
from treefold.operators import OPERATORS, BinaryGRU

FOLDER = Path(__file__).parent.parent / "data" / "saved_sets"
FINGERPRINTS = json.loads((FOLDER / "fingerprints.json").read_text())
ROWS = torch.arange(28.0).reshape(7, 4).sin()


@torch.no_grad()
def with_known_weights(module):
    for number, parameter in enumerate(module.parameters()):
        line = torch.linspace(-1, 1, parameter.numel())
        parameter.copy_(line.view(parameter.shape) * (0.5 + 0.1 * number))
    return module


def operator():
    return with_known_weights(BinaryGRU(4))


def test_a_saved_tree_keeps_its_handles_and_values():
    tree = FoldTree(operator(), ROWS, Groups.from_sizes([3, 4]))
    tree.remove([1])
    tree.insert(torch.ones(1, 4), sets=1)
    saved = FoldTree.load(FOLDER / "fold-tree", operator())
    assert saved.handles().equal(tree.handles())
    torch.testing.assert_close(saved.value(), tree.value())


def test_a_saved_stream_resumes_where_it_stopped():
    stream = StreamingFold(operator(), num_sets=2)
    stream.feed(ROWS, [0, 0, 0, 1, 1, 1, 1])
    saved = StreamingFold.load(FOLDER / "streaming-fold", operator())
    for each in (stream, saved):
        each.feed(ROWS, [1, 1, 0, 0, 0, 0, 0])
    torch.testing.assert_close(saved.value(), stream.value())
    assert saved.stability().absolute.shape == (1, 2)


def test_a_saved_graph_knows_its_edges():
    aggregation = LCMAggregation(4, operator(), eval_bracketing="carry").eval()
    edges = torch.tensor([[0, 1, 2, 3, 4], [5, 5, 5, 6, 6]])
    graph = DynamicAggregation(aggregation, ROWS, edges)
    saved = DynamicAggregation.load(FOLDER / "dynamic-aggregation", aggregation)
    assert saved.edge_index().equal(graph.edge_index())
    torch.testing.assert_close(saved.value(), graph.value())


def test_a_saved_tree_is_refused_by_another_operator():
    with pytest.raises(ValueError, match="made by another operator"):
        FoldTree.load(FOLDER / "fold-tree", BinaryGRU(4))


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_fingerprints_of_version_1_are_recognized(name):
    op = with_known_weights(OPERATORS[name](4)) if name in OPERATORS else getattr(algebra, name)()
    assert is_made_by(FINGERPRINTS[name], [op])
    assert not is_made_by(FINGERPRINTS[name], [object()])
