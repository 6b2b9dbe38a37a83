"""A model on a changing graph gives what it gives for the whole graph, and says what changed."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from incremental.operators_for_tests import Counting
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, GraphNorm, SAGEConv
from trees import normal

from treefold.aggr import LCMAggregation
from treefold.incremental import DynamicModel
from treefold.operators import GatedSelection


def carry(channels, operator="gated-selection", **options):
    return LCMAggregation(channels, operator, eval_bracketing="carry", **options)


def three_layers():
    """Layers that use their targets in three ways, with activations between them."""
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4))
    layers = [
        nn.Linear(3, 4),
        *(SAGEConv(4, 4, aggr=carry(4), project=True), nn.ReLU()),
        *(GINConv(mlp, aggr=carry(4, "binary-gru"), train_eps=True), nn.LayerNorm(4), nn.ReLU()),
        GraphConv(4, 2, aggr=carry(4, project=nn.Linear(4, 4))),
    ]
    return [layer.double().eval() for layer in layers]


def whole(layers, x, edge_index):
    with torch.no_grad():
        for layer in layers:
            takes_edges = isinstance(layer, SAGEConv | GINConv | GraphConv)
            x = layer(x, edge_index) if takes_edges else layer(x)
    return x


class ChangingGraph(RuleBasedStateMachine):
    """Edges and nodes come and change, beside a list of edges, features, and exported answers."""

    steps = 0

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = three_layers()
        self.x, edges = normal(6, 3), torch.randint(0, 6, (2, 7))
        self.model = DynamicModel(self.layers, self.x, edges)
        self.edges, self.exported = edges.t().tolist(), self.model.value()

    def export(self, answers):
        assert answers.nodes.unique().equal(answers.nodes)
        assert (self.exported[answers.nodes] != answers.outputs).any(1).all()
        self.exported[answers.nodes] = answers.outputs

    @rule(count=st.integers(0, 4), hub=st.booleans())
    def edges_come(self, count, hub):
        source = torch.randint(0, len(self.x), (count,))
        target = torch.randint(0, 1 if hub else len(self.x), (count,))
        self.export(self.model.add_edges(torch.stack([source, target])))
        self.edges += torch.stack([source, target]).t().tolist()

    @rule(data=st.data())
    def edges_go(self, data):
        if self.edges:
            places = st.sets(st.integers(0, len(self.edges) - 1), max_size=4)
            columns = [self.edges.pop(place) for place in sorted(data.draw(places), reverse=True)]
            gone = torch.tensor(columns, dtype=torch.int64).reshape(-1, 2).t()
            self.export(self.model.remove_edges(gone))

    @rule(count=st.integers(1, 3))
    def nodes_change(self, count):
        nodes, rows = torch.randperm(len(self.x))[:count], torch.randn(count, 3).double()
        self.x[nodes] = rows
        self.export(self.model.replace_nodes(nodes, rows))

    @rule()
    def a_node_comes(self):
        if len(self.x) < 12:
            row = torch.randn(1, 3).double()
            answers = self.model.add_nodes(row)
            assert answers.nodes.tolist() == [len(self.x)]
            self.x, self.exported = torch.cat([self.x, row]), torch.cat([self.exported, answers[1]])

    @invariant()
    def it_is_the_whole_graph_computed_again(self):
        type(self).steps += 1
        assert sorted(self.model.edge_index().t().tolist()) == sorted(self.edges)
        assert self.model.x.equal(self.x)
        expected = whole(self.layers, self.x, self.model.edge_index())
        torch.testing.assert_close(self.model.value(), expected)
        assert self.exported.equal(self.model.value())  # what was exported is all that changed


def test_five_hundred_steps_of_a_model_on_a_changing_graph():
    ChangingGraph.steps = 0
    run_state_machine_as_test(
        ChangingGraph, settings=settings(deadline=None, max_examples=40, stateful_step_count=30)
    )
    assert ChangingGraph.steps >= 500


def path_of(num_nodes):
    return torch.stack([torch.arange(num_nodes - 1), torch.arange(1, num_nodes)])


def test_only_nodes_that_are_reached_are_computed():
    torch.manual_seed(0)
    layers = [SAGEConv(4, 4, aggr=carry(4)).double().eval() for _ in range(3)]
    model = DynamicModel(layers, normal(50, 4), path_of(50))
    seen = []
    for layer in model._layers:
        finished = layer._finished
        layer._finished = lambda x, states, finished=finished: (
            seen.append(len(x)) or finished(x, states)
        )
    answers = model.replace_nodes([10], normal(1, 4, seed=5))
    assert answers.nodes.tolist() == [10, 11, 12, 13]
    assert seen == [2, 3, 4]
    seen.clear()
    assert model.remove_edges(torch.tensor([[20], [21]])).nodes.tolist() == [21, 22, 23]
    assert seen == [1, 2, 3]
    torch.testing.assert_close(model.value([21, 3]), model.value()[[21, 3]])


def test_a_hub_that_is_reached_costs_a_path_of_its_tree():
    counting = Counting(GatedSelection(4).double())
    layer = SAGEConv(4, 4, aggr=LCMAggregation(4, counting, eval_bracketing="carry")).double()
    hub = torch.stack([torch.arange(1, 1025), torch.zeros(1024, dtype=torch.int64)])
    model = DynamicModel([layer.eval()], normal(1025, 4), hub)
    op = model._layers[0].tree.op
    op.counted()
    model.replace_nodes([7], normal(1, 4, seed=3))
    assert op.counted() == 10


def test_a_change_that_changes_nothing_stops():
    torch.manual_seed(0)
    layers = [SAGEConv(4, 4, aggr=carry(4)).double().eval() for _ in range(2)]
    x = normal(20, 4)
    model = DynamicModel(layers, x, path_of(20))
    assert model.replace_nodes([3], x[3:4]).nodes.tolist() == []


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([SAGEConv(4, 4, aggr=LCMAggregation(4))], "expected an LCMAggregation with eval_brack"),
        ([SAGEConv(4, 4, aggr="mean")], "expected an LCMAggregation with eval_bracketing='carry'"),
        ([GCNConv(4, 4, aggr=carry(4))], "other outputs in parts than at"),
        ([GCNConv(4, 4, aggr=carry(4), add_self_loops=False)], "other outputs in parts than at"),
        ([GATConv(4, 4, aggr=carry(4), add_self_loops=False)], "other outputs in parts than at"),
        ([SAGEConv(4, 4, aggr=carry(4)), GraphNorm(4)], "GraphNorm.* compare nodes; expected"),
        ([nn.ReLU()], "have no PyG layer among them"),
    ],
)
def test_layers_that_cannot_be_taken_apart_are_refused(layers, message):
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=message):
        DynamicModel(layers, torch.randn(20, 4), torch.randint(0, 20, (2, 60)))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda model: model.remove_edges(torch.tensor([[2], [0]])), "but there are 0"),
        (lambda model: model.add_edges(torch.tensor([[9], [0]])), "names node 9"),
        (lambda model: model.replace_nodes([1, 1], normal(2, 4)), "each node once"),
        (lambda model: model.add_nodes(normal(1, 3)), r"shape \[n, 4\]"),
    ],
)
def test_nothing_has_changed_after_a_wrong_request(act, message):
    torch.manual_seed(0)
    model = DynamicModel([SAGEConv(4, 4, aggr=carry(4)).double()], normal(5, 4), path_of(5))
    before = model.edge_index(), model.value(), model.x
    with pytest.raises(ValueError, match=message):
        act(model)
    after = model.edge_index(), model.value(), model.x
    assert all(a.equal(b) for a, b in zip(after, before, strict=True))
