"""Datasets from Python files, from our tasks, and from TU text files; each mistake is one line."""

from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import TUDataset

from treefold.lab.tasks import ZINC, load_dataset
from treefold.lab.tasks.your_graphs.sources import read_dataset

FEW = Path(__file__).parents[3] / "data" / "realworld"
HELPERS = Path(__file__).parents[3]

GOOD = f"""
import sys
sys.path.insert(0, {str(HELPERS)!r})
from lab.experiments.graph_sets import graph_classes
"""


def written(folder, text):
    path = folder / "mine.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        ("graphs = graph_classes()\ndef dataset(): return graphs", (48, 6, 6)),
        ("def dataset():\n  g = graph_classes()\n  return g[:30], g[30:40], g[40:]", (30, 10, 20)),
        (
            "def dataset():\n  g = graph_classes()\n"
            "  return {'test': g[40:], 'train': g[:30], 'val': g[30:40]}",
            (30, 10, 20),
        ),
    ],
)
def test_a_file_returns_graphs_or_three_parts_of_them(tmp_path, body, sizes):
    found = load_dataset(written(tmp_path, GOOD + body))
    assert found.name == "mine"
    assert tuple(len(found.splits[name]) for name in ("train", "val", "test")) == sizes


def test_ogb_s_way_to_name_splits_is_understood(tmp_path):
    body = """
class Split(list):
    def get_idx_split(self):
        train, valid, test = torch.arange(60).split([30, 10, 20])
        return {"train": train, "valid": valid, "test": test}
def dataset(): return Split(graph_classes())
"""
    found = load_dataset(written(tmp_path, f"import torch\n{GOOD}{body}"))
    assert [len(part) for part in found.splits.values()] == [30, 10, 20]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def dataset(:", r"mine.py, line 1: .*"),
        ("x = 1", r"mine.py has no function dataset\(\)"),
        ("dataset = 3", r"mine.py has no function dataset\(\)"),
        ("import nowhere_to_be_found", r"mine.py, line 1, raised ModuleNotFoundError"),
        ("\n\ndef dataset():\n    return 1 / 0", r"mine.py, line 4, raised ZeroDivisionError"),
        ("def dataset(): return 3", r"returned a int; expected a PyG dataset"),
        ("def dataset(): return [1, 2]", r"mine.py: graph 0 is a int"),
        ("def dataset(): return (1, 2)", r"returned 2 parts; expected three"),
        ("def dataset(): return {'a': 1}", r"returned a; expected train, val and test"),
    ],
)
def test_an_error_in_a_file_names_its_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_dataset(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_file_may_import_what_lies_beside_it(tmp_path):
    (tmp_path / "beside_me.py").write_text(GOOD)
    text = "from beside_me import graph_classes\ndef dataset(): return graph_classes()"
    assert len(load_dataset(written(tmp_path, text)).train) == 48


def test_missing_files_and_unknown_names_say_what_to_give(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere.py is not a file"):
        read_dataset("nowhere.py")
    with pytest.raises(ValueError, match=r"'MUTAG' is no Python file.*no MUTAG_A.txt.*--data"):
        read_dataset("MUTAG", tmp_path)


def test_our_tasks_come_with_their_splits():
    found = load_dataset("zinc", FEW)
    assert (found.problem.level, found.problem.metric) == ("graph", "mae")
    for name in ("train", "val", "test"):
        assert found.answers(name)[:, 0].float().equal(ZINC().split(name, FEW).y)
        own = found.splits[name].take(torch.tensor([1])).graphs
        theirs = ZINC().split(name, FEW).take(torch.tensor([1]))
        assert own.x.equal(theirs.x)
        assert own.edge_index.equal(theirs.edge_index)
        assert own.edge_attr.equal(theirs.edge_attr)


TU = {
    "A": "1, 2\n2, 1\n4, 3\n3, 5\n5, 4",
    "graph_indicator": "1\n1\n2\n2\n2\n3",
    "graph_labels": "1\n-1\n1",
    "node_labels": "0\n1\n1\n2\n0\n0",
    "edge_labels": "0\n1\n0\n1\n1",
}


def test_tu_files_are_what_pyg_makes_of_them(tmp_path):
    raw = tmp_path / "TINY" / "raw"
    raw.mkdir(parents=True)
    for name, text in TU.items():
        (raw / f"TINY_{name}.txt").write_text(text + "\n")
    name, found = read_dataset("TINY", tmp_path)
    theirs = TUDataset(str(tmp_path), "TINY", use_node_attr=True, use_edge_attr=True)[:2]
    assert name == "TINY"
    assert found.sizes.tolist() == [2, 3, 1]
    assert found.num_edges.tolist() == [2, 3, 0]  # PyG forgets the last, which has no edges
    nodes, edges = 0, 0
    for number, graph in enumerate(theirs):
        assert found.y[number] == graph.y
        assert found.x[nodes : nodes + graph.num_nodes].equal(graph.x)
        assert found.edge_index[:, edges : edges + graph.num_edges].equal(graph.edge_index)
        assert found.edge_attr[edges : edges + graph.num_edges].equal(graph.edge_attr)
        nodes, edges = nodes + graph.num_nodes, edges + graph.num_edges
    (raw / "TINY_graph_labels.txt").unlink()
    with pytest.raises(ValueError, match=r"neither TINY_graph_labels.txt nor"):
        read_dataset("TINY", tmp_path)
    (raw / "TINY_A.txt").write_text("what is this")
    with pytest.raises(ValueError, match="cannot be read"):
        read_dataset("TINY", tmp_path)
