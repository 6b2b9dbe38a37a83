"""The problem of a data set is inferred from it; a data set without one is refused."""

import pytest
import torch
from lab.experiments.graph_sets import graph_classes, graph_numbers, one_graph, ring
from torch_geometric.data import Data, HeteroData

from treefold.lab.tasks import Categories, Numbers, collect, dataset_of
from treefold.lab.tasks.your_graphs.collected import collect_splits


def dataset(graphs, *arguments):
    return dataset_of("mine", collect(graphs), *arguments)


def changed(graphs, **entries):
    for graph in graphs:
        for name, make in entries.items():
            graph[name] = make(graph)
    return graphs


@pytest.mark.parametrize(
    ("graphs", "level", "kind", "metric", "outputs"),
    [
        (graph_classes(), "graph", "classification", "accuracy", 2),
        (graph_numbers(), "graph", "regression", "mae", 1),
        ([one_graph()], "node", "classification", "accuracy", 2),
        (changed([one_graph()], y=lambda g: g.x * 3), "node", "regression", "mae", 2),
        (changed(graph_classes(), y=lambda g: g.x[:1]), "graph", "regression", "mae", 2),
        (
            changed(graph_classes(), y=lambda g: g.y.view(1, 1)),
            *("graph", "classification", "accuracy", 2),
        ),
    ],
)
def test_the_problem_is_inferred_from_the_answers(graphs, level, kind, metric, outputs):
    problem = dataset(graphs).problem
    assert (problem.level, problem.kind, problem.metric) == (level, kind, metric)
    assert problem.num_outputs == outputs
    assert problem.highest == (metric != "mae")


def test_a_rare_class_is_scored_by_roc_auc_unless_asked_otherwise():
    graphs = changed(graph_classes(100), y=lambda g: torch.tensor([int(g.x[0, 0] > 1.3)]))
    assert dataset(graphs).problem.metric == "roc-auc"
    assert dataset(graphs, None, "accuracy").problem.metric == "accuracy"


FLOAT_LABELS = changed(graph_classes(), y=lambda g: g.y.float())


def test_the_kind_of_unclear_answers_can_be_given():
    with pytest.raises(ValueError, match="--task classification or --task regression"):
        dataset(FLOAT_LABELS)
    assert dataset(FLOAT_LABELS, "classification").problem.num_outputs == 2
    assert dataset(FLOAT_LABELS, "regression").problem.metric == "mae"
    with pytest.raises(ValueError, match="did you mean regression"):
        dataset(FLOAT_LABELS, "regresion")


def nan_in(name):
    def graphs():
        found = graph_numbers()
        found[3][name] = found[3][name].clone()
        found[3][name][0] = float("nan")
        return found

    return graphs


def hetero():
    data = HeteroData()
    data["a"].x = torch.zeros(2, 1)
    return [data]


FAULTS = {
    "no graphs": (list, "no graphs"),
    "no y": (lambda: changed(graph_classes(), y=lambda g: None), "has no y"),
    "no edges": (
        lambda: changed(graph_classes(), edge_index=lambda g: torch.empty(2, 0).long()),
        "has no edges",
    ),
    "edges beyond": (
        lambda: changed(graph_classes(), edge_index=lambda g: g.edge_index + 5),
        "graph 0 has edges between nodes 5 and 8, but 4 nodes",
    ),
    "NaN in x": (nan_in("x"), "x has 2 entries that are NaN or infinite, the first in row 15"),
    "NaN in y": (nan_in("y"), "y has 1 entries that are not finite"),
    "one class": (
        lambda: changed(graph_classes(), y=lambda g: torch.tensor([2])),
        "y is 2 everywhere",
    ),
    "negative class": (
        lambda: changed(graph_classes(), y=lambda g: g.y - 1),
        "the class -1; expected classes from 0",
    ),
    "no classes": (
        lambda: changed(graph_classes(), y=lambda g: g.y + 99_999),
        "look like no classes",
    ),
    "y of neither": (
        lambda: changed(graph_classes(), y=lambda g: torch.randn(3)),
        "y of graph 0 has 3 rows; expected 1, for the graph",
    ),
    "single nodes": (
        lambda: [Data(x=torch.ones(1, 1), y=torch.ones(1), edge_index=torch.zeros(2, 1).long())],
        "every graph has one node and one y",
    ),
    "two kinds of nodes": (hetero, "graph 0 is a HeteroData"),
    "unknown size": (
        lambda: [Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1]))],
        "has an unknown number of nodes",
    ),
    "odd columns": (
        lambda: [*graph_classes(), ring(4, torch.tensor([1]), None, channels=3)],
        r"x has \[2, 3\] columns",
    ),
    "negative categories": (
        lambda: changed(graph_classes(), x=lambda g: torch.full((g.num_nodes, 1), -1)),
        "x holds whole numbers from -1",
    ),
    "one mask": (
        lambda: changed([one_graph()], val_mask=lambda g: None, test_mask=lambda g: None),
        "has no val_mask, test_mask",
    ),
    "empty mask": (
        lambda: changed([one_graph()], test_mask=lambda g: torch.zeros(g.num_nodes).bool()),
        "the split test is empty",
    ),
    "shared nodes": (
        lambda: changed([one_graph()], test_mask=lambda g: g.train_mask),
        "20 answers are in train and in test",
    ),
    "too few graphs": (lambda: graph_classes(5), "5 graphs cannot be split"),
    "adjacency": (
        lambda: [Data(x=torch.ones(2, 1), y=torch.ones(1), adj_t=torch.ones(2, 2))],
        "leave out ToSparseTensor",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_before_anything_is_trained(fault):
    graphs, message = FAULTS[fault]
    with pytest.raises(ValueError, match=message) as caught:
        dataset(graphs())
    assert "\n" not in str(caught.value)


def test_masks_are_splits_of_nodes():
    graph = one_graph()
    found = dataset([graph])
    assert "masks of the data" in found.notes[-1]
    for name in ("train", "val", "test"):
        assert found.answers(name).equal(graph.y[graph[f"{name}_mask"]])
        batch = found.splits[name].take(torch.tensor([0]))
        assert batch.y.equal(graph.y[graph[f"{name}_mask"]])
        assert batch.asked.equal(graph[f"{name}_mask"].nonzero().squeeze(1))


def test_of_several_masks_the_first_is_used():
    graph = one_graph()
    first = graph.train_mask.clone()
    for name in ("train", "val", "test"):
        mask = graph[f"{name}_mask"]
        graph[f"{name}_mask"] = torch.stack([mask, ~mask], 1)
    found = dataset([graph])
    assert found.train.asked.equal(first)
    assert any("the first is used" in note for note in found.notes)


@pytest.mark.parametrize("graphs", [graph_classes(), [one_graph(masks=False)]])
def test_random_splits_are_the_same_each_time_and_miss_nothing(graphs):
    one, other = dataset(graphs), dataset(graphs)
    assert one.digest == other.digest
    masks = [one.splits[name].asked for name in ("train", "val", "test")]
    assert torch.stack(masks).sum(0).eq(1).all()
    assert [int(mask.sum()) for mask in masks] == ([48, 6, 6] if len(graphs) > 1 else [36, 12, 12])
    assert "drawn at random" in one.notes[-1]
    for mask in masks:  # every class has its share
        share = float(one.train.y[mask].double().mean() - one.train.y.double().mean())
        assert abs(share) <= 2 / int(mask.sum())


def node_questions(count):
    return [one_graph(12, masks=False) for _ in range(count)]


def shared_graphs(found):
    one, other = (set(found.splits[name].graphs.tolist()) for name in ("train", "test"))
    return one & other


def test_questions_about_nodes_of_many_graphs_are_split_by_graph_and_of_one_by_node():
    many, alone = dataset(node_questions(12)), dataset(node_questions(1))
    assert shared_graphs(many) == set()
    assert shared_graphs(alone) == {0}
    assert "graphs were drawn at random" in many.notes[-1]
    assert "nodes were drawn at random" in alone.notes[-1]
    sizes = [len(many.splits[name]) for name in ("train", "val", "test")]
    assert sum(sizes) == 12
    assert all(sizes)


def test_another_split_can_be_asked_for():
    by_node = dataset(node_questions(12), None, None, "node")
    assert len(shared_graphs(by_node)) > 6
    with pytest.raises(ValueError, match="cannot be split by node; split them by graph"):
        dataset(graph_classes(), None, None, "node")
    with pytest.raises(ValueError, match="nodes"):
        dataset(graph_classes(), None, None, "nodes")


def test_given_splits_are_kept():
    graphs = graph_classes()
    parts = {"train": graphs[:40], "val": graphs[40:45], "test": graphs[45:]}
    found = dataset_of("mine", collect_splits(parts))
    for name, part in parts.items():
        assert found.answers(name).tolist() == [int(graph.y) for graph in part]
    with pytest.raises(ValueError, match="the split val has no graphs"):
        collect_splits(parts | {"val": []})


def test_batches_hold_the_graphs_with_their_features_and_edges():
    graphs = changed(graph_classes(), edge_attr=lambda g: torch.rand(g.num_edges))
    found = dataset(graphs)
    batch = found.train.take(torch.tensor([5, 2]))
    five, two = (graphs[int(found.train.graphs[place])] for place in (5, 2))
    assert batch.graphs.x.equal(torch.cat([five.x, two.x]))
    assert batch.y.tolist() == [int(five.y), int(two.y)]
    expected = {
        (source, target, attr)
        for graph, shift in ((five, 0), (two, five.num_nodes))
        for (source, target), attr in zip(
            (graph.edge_index + shift).t().tolist(), graph.edge_attr.tolist(), strict=True
        )
    }
    found_edges = zip(
        batch.graphs.edge_index.t().tolist(), batch.graphs.edge_attr[:, 0].tolist(), strict=True
    )
    assert {(*edge, attr) for edge, attr in found_edges} == expected
    assert batch.graphs.edge_index[1].diff().ge(0).all()


def test_inputs_are_categories_or_numbers():
    graphs = changed(
        graph_classes(),
        x=lambda g: torch.arange(g.num_nodes).unsqueeze(1) % 4 * torch.tensor([[1, 0]]),
        edge_weight=lambda g: torch.rand(g.num_edges),
    )
    found = dataset(graphs)
    assert found.node_input == Categories((4, 1))
    assert found.edge_input == Numbers(1)
    assert dataset(graph_classes()).edge_input is None


def test_nodes_that_carry_nothing_know_how_many_neighbours_they_have():
    graphs = graph_classes()
    for graph in graphs:
        graph.num_nodes = graph.x.shape[0]
        del graph.x
    found = dataset(graphs)
    store = found.train.store
    assert store.x[:, 0].equal(torch.log1p(store.in_degrees.double()).float())
    assert any("stands in for x" in note for note in found.notes)
    positions = dataset(changed(graphs, pos=lambda g: torch.ones(g.num_nodes, 3)))
    assert positions.node_input == Numbers(3)


def test_the_digest_tells_datasets_apart():
    graphs = graph_classes()
    before = dataset(graphs).digest
    graphs[0].x = graphs[0].x + 1e-3
    assert dataset(graphs).digest != before


def test_roc_auc_needs_both_classes_in_every_split():
    graphs = graph_classes()
    for graph in graphs[40:]:
        graph.y = torch.tensor([0])
    parts = {"train": graphs[:40], "val": graphs[40:50], "test": graphs[50:]}
    with pytest.raises(ValueError, match="the split val has one class only"):
        dataset_of("mine", collect_splits(parts), metric="roc-auc")
    for wrong, message in (("mae", "y are classes"), ("acuracy", "did you mean accuracy")):
        with pytest.raises(ValueError, match=message):
            dataset(graph_classes(), None, wrong)
