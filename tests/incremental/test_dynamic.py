"""A graph whose edges come and go gathers what the graph from scratch would gather."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from incremental.operators_for_tests import Counting, Failing, Scramble, integers
from torch import nn
from trees import normal, seeded

from treefold.aggr import LCMAggregation, MonoidAggregation, aggregator
from treefold.algebra import Mean, Sum
from treefold.fold import Groups, plan_tree, tree_reduce
from treefold.incremental import DynamicAggregation


def from_scratch(graph):
    source, target = graph.edge_index()
    groups = Groups.from_index(target, graph.num_nodes)
    return tree_reduce(Scramble(), graph.x[source], plan_tree(groups.sizes, "carry"))


class LivingGraph(RuleBasedStateMachine):
    """Edges and nodes come and change, beside a plain list of edges and a table of features."""

    steps = 0

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)  # a step is repeated alike
        self.x = integers(5, 2)
        edges = torch.randint(0, 5, (2, 8))
        self.graph = DynamicAggregation(Scramble(), self.x, edges)
        self.edges = edges.t().tolist()

    @rule(count=st.integers(0, 6), hub=st.booleans())
    def edges_come(self, count, hub):
        source = torch.randint(0, len(self.x), (count,))
        target = torch.randint(0, 1 if hub else len(self.x), (count,))
        self.graph.add_edges(torch.stack([source, target]))
        self.edges += torch.stack([source, target]).t().tolist()

    @rule(data=st.data())
    def edges_go(self, data):
        if self.edges:
            places = st.sets(st.integers(0, len(self.edges) - 1), max_size=6)
            gone = sorted(data.draw(places), reverse=True)
            columns = [self.edges.pop(place) for place in gone]
            self.graph.remove_edges(torch.tensor(columns, dtype=torch.int64).reshape(-1, 2).t())

    @rule(count=st.integers(1, 3))
    def nodes_change(self, count):
        nodes = torch.randperm(len(self.x))[:count]
        rows = integers(len(nodes), 2)
        self.x[nodes] = rows
        self.graph.replace_nodes(nodes, rows)

    @rule()
    def a_node_comes(self):
        if len(self.x) < 12:
            row = integers(1, 2)
            self.x = torch.cat([self.x, row])
            assert self.graph.add_nodes(row).tolist() == [len(self.x) - 1]

    @invariant()
    def it_is_the_graph_from_scratch(self):
        type(self).steps += 1
        assert self.graph.value().equal(from_scratch(self.graph))
        assert sorted(self.graph.edge_index().t().tolist()) == sorted(self.edges)
        assert self.graph.x.equal(self.x)


def test_a_thousand_steps_of_a_dynamic_graph():
    LivingGraph.steps = 0
    run_state_machine_as_test(
        LivingGraph, settings=settings(deadline=None, max_examples=45, stateful_step_count=45)
    )
    assert LivingGraph.steps >= 1000


def drawn(num_nodes=30, num_edges=100, channels=4):
    torch.manual_seed(0)
    return normal(num_nodes, channels), torch.randint(0, num_nodes, (2, num_edges))


@pytest.mark.parametrize("name", ["binary-gru", "binary-mlp", "conjugated-sum"])
def test_it_equals_the_aggregation_with_the_same_bracketing(name):
    x, edges = drawn()
    module = aggregator(name, 4, eval_bracketing="carry").double().eval()
    graph = DynamicAggregation(module, x, edges[:, :60])
    graph.add_edges(edges[:, 60:])
    graph.remove_edges(edges[:, 20:50])
    source, target = graph.edge_index()
    expected = module(x[source], target, dim_size=30).detach()
    torch.testing.assert_close(graph.value(), expected)
    torch.testing.assert_close(graph.tree.rebuilt().value(), expected)
    torch.testing.assert_close(graph.value([3, 3, 29]), expected[[3, 3, 29]])


def test_an_aggregation_that_evaluates_over_other_trees_is_warned_of():
    x, edges = drawn()
    with pytest.warns(UserWarning, match="other trees .* eval_bracketing='carry'"):
        DynamicAggregation(aggregator("binary-gru", 4).double(), x, edges)


def test_projections_and_monoids_with_tuples_are_part_of_it():
    x, edges = drawn()
    project = nn.Linear(4, 4).double()
    learned = LCMAggregation(4, eval_bracketing="carry", project=project).double().eval()
    for module in (learned, MonoidAggregation(Mean())):
        graph = DynamicAggregation(module, x, edges)
        graph.replace_nodes([0, 7], x[:2] + 1)
        source, target = graph.edge_index()
        expected = module(graph.x[source], target, dim_size=30)
        torch.testing.assert_close(graph.value(), expected.detach(), equal_nan=True)


def test_an_edge_costs_the_logarithm_of_the_degree_of_its_target():
    op = Counting(Sum())
    hub = torch.stack([torch.randint(1, 50, (1000,)), torch.zeros(1000, dtype=torch.int64)])
    graph = DynamicAggregation(op, integers(50, 2), hub)
    op.counted()
    graph.add_edges(torch.tensor([[3], [0]]))
    assert op.counted() <= 10
    graph.remove_edges(torch.tensor([[3], [0]]))
    assert op.counted() <= 20
    graph.add_edges(torch.tensor([[3], [1]]))
    assert op.counted() == 0


def test_many_updates_leave_the_table_of_edges_in_order():
    graph = DynamicAggregation(Sum(), integers(40, 1), torch.zeros(2, 0, dtype=torch.int64))
    kept = []
    for _ in range(6):
        edges = torch.randint(0, 40, (2, 700))
        graph.add_edges(edges)
        graph.remove_edges(edges[:, :500])
        kept.append(edges[:, 500:])
    expected = sorted(torch.cat(kept, 1).t().tolist())
    assert sorted(graph.edge_index().t().tolist()) == expected
    assert graph.num_edges == 1200
    assert graph.num_bytes < 1_000_000


def test_what_is_loaded_goes_on_as_what_was_saved(tmp_path):
    x, edges = drawn()
    module = aggregator("binary-gru", 4, eval_bracketing="carry").double().eval()
    graph = DynamicAggregation(module, x, edges)
    graph.remove_edges(edges[:, :10])
    graph.save(tmp_path)
    again = DynamicAggregation.load(tmp_path, module, device="cpu")
    assert again.value().equal(graph.value())
    for each in (graph, again):
        each.remove_edges(edges[:, 50:60])
        each.add_edges(edges[:, :3])
        each.replace_nodes(edges[0, 50], x[:1])
    torch.testing.assert_close(again.value(), graph.value())
    other = LCMAggregation(4, module.operator, project=nn.Identity(), eval_bracketing="carry")
    with pytest.raises(ValueError, match="another operator"):
        DynamicAggregation.load(tmp_path, other)


def test_its_stability_is_in_the_units_of_its_output():
    x, edges = drawn()
    exact = DynamicAggregation(MonoidAggregation(Sum()), (100 * x).long(), edges)
    assert exact.stability(generator=seeded()).largest.eq(0).all()
    module = aggregator("binary-gru", 4, eval_bracketing="carry").double()
    learned = DynamicAggregation(module, x, edges)
    small = learned.stability(generator=seeded())
    large = learned.stability(generator=seeded(), decode=lambda state: 10 * state)
    assert small.largest.max() > 1e-6
    torch.testing.assert_close(large.absolute, 10 * small.absolute)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda graph: graph.remove_edges(torch.tensor([[0, 0], [1, 1]])), "2 edges from 0 to 1"),
        (lambda graph: graph.remove_edges(torch.tensor([[2], [0]])), "but there are 0"),
        (lambda graph: graph.add_edges(torch.tensor([[9], [0]])), "names node 9"),
        (lambda graph: graph.add_edges(torch.tensor([[0.0], [0.0]])), "float32"),
        (lambda graph: graph.replace_nodes([1, 1], integers(2, 2)), "each node once"),
        (lambda graph: graph.add_nodes(integers(1, 3)), r"shape \[n, 2\]"),
    ],
)
def test_nothing_has_changed_after_a_wrong_request(act, message):
    graph = DynamicAggregation(Sum(), integers(3, 2), torch.tensor([[0, 1], [1, 2]]))
    before = graph.edge_index(), graph.value(), graph.x
    with pytest.raises(ValueError, match=message):
        act(graph)
    after = graph.edge_index(), graph.value(), graph.x
    assert all(a.equal(b) for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize(
    ("act", "calls"),
    [
        (lambda graph: graph.add_edges(torch.tensor([[0, 0, 1, 2], [1] * 4])), 2),
        (lambda graph: graph.remove_edges(torch.tensor([[0, 2], [1, 2]])), 0),
        (lambda graph: graph.replace_nodes([0, 3], integers(2, 2)), 1),
    ],
    ids=["add", "remove", "replace"],
)
def test_nothing_has_changed_after_the_operator_has_failed(act, calls):
    op = Failing()
    edges = torch.tensor([[0, 1, 2, 3, 0, 1, 2], [1, 1, 1, 1, 2, 2, 2]])
    graph = DynamicAggregation(op, integers(4, 2), edges)
    before = graph.edge_index(), graph.value(), graph.x
    op.calls_left = calls
    with pytest.raises(RuntimeError, match="the operator has failed"):
        act(graph)
    after = graph.edge_index(), graph.value(), graph.x
    assert all(a.equal(b) for a, b in zip(after, before, strict=True))
    op.calls_left = 1 << 30
    graph.remove_edges(edges)
    assert graph.num_edges == 0


def test_aggregations_without_an_operator_are_refused():
    with pytest.raises(ValueError, match="others have no operator"):
        DynamicAggregation(aggregator("gru", 2), integers(3, 2), torch.tensor([[0], [1]]))
