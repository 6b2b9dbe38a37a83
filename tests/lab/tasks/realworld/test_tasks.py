"""The four data sets: what is in the official files is what a network gets."""

import csv
import gzip
import math
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch_geometric import datasets

from treefold.lab.tasks import (
    CIFAR10,
    GRAPH_TASKS,
    MNIST,
    ZINC,
    Categories,
    MissingData,
    MolHIV,
    Numbers,
    average_log_degree,
)

SPLITS = ("train", "val", "test")


def graphs(store):
    """One batch per graph."""
    return [store.take(torch.tensor([number])) for number in range(len(store))]


def as_set(edge_index, edge_attr):
    """Edges with what they carry, in no order."""
    return {(*pair, attr) for pair, attr in zip(edge_index.t().tolist(), edge_attr, strict=True)}


def assert_same_graph(mine, theirs, x, edge_attr):
    assert mine.x.equal(x)
    assert mine.y.tolist() == theirs.y.flatten().tolist()
    assert mine.edge_index.shape == theirs.edge_index.shape
    mine_attr, their_attr = mine.edge_attr.flatten().tolist(), edge_attr.flatten().tolist()
    assert as_set(mine.edge_index, mine_attr) == as_set(theirs.edge_index, their_attr)


@pytest.mark.parametrize("split", SPLITS)
def test_zinc_is_what_pyg_reads(copy, split, capsys):
    theirs = datasets.ZINC(str(copy / "ZINC"), subset=True, split=split)
    mine = graphs(ZINC().split(split, copy))
    assert len(mine) == len(theirs)
    for own, other in zip(mine, theirs, strict=True):
        assert_same_graph(own, other, other.x, other.edge_attr)


@pytest.mark.parametrize("task", [MNIST(), CIFAR10()], ids=lambda task: task.name)
@pytest.mark.parametrize("split", SPLITS)
def test_superpixels_are_what_pyg_reads_with_centres_beside_intensities(copy, task, split):
    theirs = datasets.GNNBenchmarkDataset(str(copy), task.folder, split=split)
    mine = graphs(task.split(split, copy))
    assert len(mine) == len(theirs)
    for own, other in zip(mine, theirs, strict=True):
        assert_same_graph(own, other, torch.cat([other.x, other.pos], 1), other.edge_attr)
        assert own.x.dtype == own.edge_attr.dtype == torch.float32


def rows(path):
    with gzip.open(path, "rt") as file:
        return [[int(cell) for cell in row] for row in csv.reader(file)]


def test_molhiv_is_what_the_tables_say(few):
    raw = few / "ogbg_molhiv" / "raw"
    sizes = [row[0] for row in rows(raw / "num-node-list.csv.gz")]
    bonds = [row[0] for row in rows(raw / "num-edge-list.csv.gz")]
    mine = graphs(MolHIV().split("train", few))
    assert [own.y.item() for own in mine] == [1.0, 0.0, 0.0]
    for own, number in zip(mine, (3, 4, 6), strict=True):
        nodes = slice(sum(sizes[:number]), sum(sizes[: number + 1]))
        edges = slice(sum(bonds[:number]), sum(bonds[: number + 1]))
        assert own.x.tolist() == rows(raw / "node-feat.csv.gz")[nodes]
        expected = set()
        for (a, b), features in zip(
            rows(raw / "edge.csv.gz")[edges], rows(raw / "edge-feat.csv.gz")[edges], strict=True
        ):
            expected |= {(a, b, *features), (b, a, *features)}
        found = torch.cat([own.edge_index.t(), own.edge_attr], 1).tolist()
        assert set(map(tuple, found)) == expected
        assert len(found) == 2 * bonds[number]


@pytest.mark.parametrize(
    ("split", "target", "nodes", "edges"), [("val", 0.6299, 35, 78), ("test", 1.9973, 16, 34)]
)
def test_zinc_begins_with_the_published_molecules(few, split, target, nodes, edges):
    first = graphs(ZINC().split(split, few))[0]
    assert first.y.item() == pytest.approx(target, abs=3e-4)
    assert (len(first.x), first.edge_index.shape[1]) == (nodes, edges)


def test_all_of_zinc_is_in_the_order_of_the_pickle_and_the_subset_in_that_of_its_list(few):
    everything, subset = ZINC(subset=False).split("train", few), ZINC().split("train", few)
    assert (len(everything), len(subset)) == (5, 3)
    assert everything.y[[3, 0, 4]].equal(subset.y)


@pytest.mark.parametrize("name", GRAPH_TASKS)
def test_messages_to_a_node_are_consecutive_rows(few, name):
    batch = GRAPH_TASKS[name]().split("train", few).take(torch.tensor([1, 0]))
    receivers = batch.edge_index[1]
    assert bool((receivers[1:] >= receivers[:-1]).all())
    assert batch.neighbours.sizes.equal(torch.bincount(receivers, minlength=len(batch.x)))


@pytest.mark.parametrize("name", GRAPH_TASKS)
def test_a_task_says_what_its_graphs_carry(few, name):
    task = GRAPH_TASKS[name]()
    for split in SPLITS:
        store = task.split(split, few)
        batch = store.take(torch.arange(len(store)))
        assert batch.x.shape[1] == task.node_input.channels
        assert batch.edge_attr.shape[1] == task.edge_input.channels
        whole_numbers = {Categories: torch.int64, Numbers: torch.float32}
        assert batch.x.dtype == whole_numbers[type(task.node_input)]


def test_delta_is_the_mean_over_nodes_of_the_logarithm_of_the_degree(few):
    logarithms = []
    for graph in graphs(MolHIV().split("train", few)):
        degrees = [0] * len(graph.x)
        for sender in graph.edge_index[0].tolist():
            degrees[sender] += 1
        logarithms += [math.log(degree + 1) for degree in degrees]
    of_molecules, of_images = (
        average_log_degree(task.split("train", few)) for task in (MolHIV(), MNIST())
    )
    assert of_molecules == pytest.approx(sum(logarithms) / len(logarithms), rel=1e-12)
    assert of_images == pytest.approx(math.log(9), rel=1e-12)


def test_small_molecules_can_be_left_out_as_pna_does(few):
    sizes = MolHIV().split("train", few).sizes
    limit = int(sizes.min())
    fewer = MolHIV(leave_out_up_to=limit).split("train", few)
    assert fewer.sizes.tolist() == [size for size in sizes.tolist() if size > limit]
    assert 0 < len(fewer) < len(sizes)
    with pytest.raises(ValueError, match="expected 0 or more"):
        MolHIV(leave_out_up_to=-1)


def test_tasks_are_frozen_and_split_names_are_checked(few):
    with pytest.raises(FrozenInstanceError):
        ZINC().subset = False
    with pytest.raises(ValueError, match="did you mean val"):
        ZINC().split("valid", few)


def test_the_folder_is_the_argument_or_the_variable_and_else_a_message(few, tmp_path, monkeypatch):
    with pytest.raises(MissingData, match="treefold data fetch zinc"):
        ZINC().split("val")
    monkeypatch.setenv("TREEFOLD_DATA", str(few))
    assert len(ZINC().split("val")) == 3
    with pytest.raises(MissingData, match=r"raw/train.pickle and 5 more not found.*TREEFOLD_DATA"):
        ZINC().split("val", tmp_path)
