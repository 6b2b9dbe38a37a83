"""The multi-task network: PNA's sizes, its steps one by one, and graphs that do not disturb."""

import pytest
import torch
from lab.networks.graphs import random_graph, together
from torch.nn import functional as F
from torch_geometric.nn.aggr import Set2Set

import treefold
from treefold.fold import planning
from treefold.lab.networks import multi_task_network

NAMES = ["gcn", "gat", "gin", "sum", "max", "pna", "gru", "binary-gru", "binary-gru-assoc"]


def network(name, **options):
    """In float64, with weights large enough to tell things apart, and batch norm that acts."""
    torch.manual_seed(0)
    made = multi_task_network(name, **{"channels": 8, "towers": 2, **options}).double()
    for key, value in made.state_dict().items():
        if value.is_floating_point() and "deg" not in key:
            value.uniform_(0.5, 1.5) if "running_var" in key else value.normal_(std=0.4)
    return made.eval()


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("pna", {}, 8350),
        ("sum", {}, 7294),
        ("max", {}, 7294),
        ("gin", {}, 7272),
        ("gat", {}, 6694),
        ("gcn", {}, 6662),
        ("sum", {"divide": False}, 9646),
        ("pna", {"channels": 128, "towers": 1}, 662_928),
        ("sum", {"channels": 128, "towers": 1}, 479_888),
    ],
)
def test_networks_have_as_many_parameters_as_pna_s(name, options, count):
    made = multi_task_network(name, **options)
    assert sum(parameter.numel() for parameter in made.parameters()) == count


def test_a_learned_aggregator_adds_its_parameters_in_each_tower_of_both_convolutions():
    plain = multi_task_network("sum", divide=False)
    learned = multi_task_network("binary-gru", divide=False)
    added = [sum(p.numel() for p in made.parameters()) for made in (plain, learned)]
    cells = [6 * width * width + 6 * width + width for width in (2, 16)]
    assert added[1] - added[0] == 4 * sum(cells)


@pytest.mark.parametrize("name", NAMES)
def test_one_graph_goes_through_the_steps_of_the_benchmark(name):
    made = network(name)
    x, edges = random_graph(7, 1)
    layout = treefold.lab.networks.GraphLayout.of(7, edges)
    states = x
    for convolution in (made.first, made.next, made.next):  # 7 nodes have 3 layers
        old = F.pad(states, (0, 8 - states.shape[1]))
        states = made.gru(input=old, hx=convolution(states, layout.neighbours))
    read = Set2Set(8, processing_steps=7).double()
    read.lstm.load_state_dict({f"{k}_l0": v for k, v in made.readout.cell.state_dict().items()})
    pooled = read(states, torch.zeros(7, dtype=torch.long), dim_size=1)
    node_targets, graph_targets = made(x, edges)
    torch.testing.assert_close(node_targets, made.node_head(states))
    torch.testing.assert_close(graph_targets, made.graph_head(pooled))


def test_linear_answers_are_those_before_the_leaky_relu():
    leaky, linear = network("sum"), network("sum", linear_output=True)
    x, edges = random_graph(7, 1)
    squeezed, answers = (torch.cat([y.flatten() for y in m(x, edges)]) for m in (leaky, linear))
    assert (answers < 0).any()
    assert (answers > 0).any()
    torch.testing.assert_close(squeezed, F.leaky_relu(answers))


def reach(**options):
    """The share of a node's input that is left in its state after twelve layers, at the start."""
    torch.manual_seed(0)
    made = multi_task_network("sum", channels=8, towers=2, **options).double().eval()
    x, edges = random_graph(24, 1)
    layout = treefold.lab.networks.GraphLayout.of(24, edges)
    changed = x.clone()
    changed[0] += 0.1
    return (made.states(changed, layout) - made.states(x, layout))[0].norm() / 0.1


def test_a_gru_that_begins_as_a_copy_carries_inputs_to_the_last_layer():
    assert reach() < 1e-5
    assert reach(gru_copy_init=True) > 0.1


def test_a_node_head_with_he_s_weights_gives_answers_as_large_as_the_states():
    states = torch.randn(100, 32, dtype=torch.float64)
    small, large = (
        multi_task_network("sum", channels=32, node_head_he_init=he).double().node_head(states)
        for he in (False, True)
    )
    assert small.std() < 1e-3 < 0.3 < large.std()


@pytest.mark.parametrize("readout", ["set2set", "binary-gru"])
@pytest.mark.parametrize("name", NAMES)
def test_a_graph_is_answered_alike_whatever_else_is_in_the_batch(name, readout):
    made = network(name, divide=False, readout=readout)
    graphs = [random_graph(size, seed) for seed, size in enumerate((4, 9, 1, 6, 9, 2, 15))]
    node_targets, graph_targets = made(*together(graphs))
    per_graph = node_targets.split([len(x) for x, _ in graphs])
    for place, (x, edges) in enumerate(graphs):
        alone_node, alone_graph = made(x, edges)
        torch.testing.assert_close(per_graph[place], alone_node)
        torch.testing.assert_close(graph_targets[place], alone_graph[0])
    assert not torch.allclose(graph_targets[1], graph_targets[4])


@pytest.mark.parametrize("name", ["gcn", "gat", "gin", "sum", "max", "pna"])
def test_the_order_of_nodes_does_not_matter(name):
    made = network(name)
    x, edges = random_graph(8, 5)
    shuffle = torch.randperm(8)
    moved = treefold.lab.networks.graph_layout.inverse(shuffle)[edges]
    node_targets, graph_targets = made(x, edges)
    moved_node, moved_graph = made(x[shuffle], moved)
    torch.testing.assert_close(moved_graph, graph_targets)
    torch.testing.assert_close(moved_node, node_targets[shuffle])


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_learns(name):
    made = network(name, divide=False).train()
    x, edges, batch = together([random_graph(size, size) for size in (5, 8, 6)])
    with treefold.record_penalties() as penalties:
        node_targets, graph_targets = made(x, edges, batch)
    loss = node_targets.square().mean() + graph_targets.square().mean() + penalties.total()
    loss.backward()
    assert bool(loss.isfinite())
    assert len(penalties) == (8 if name.endswith("assoc") else 0)  # 4 layers, 2 towers
    for key, parameter in made.named_parameters():
        assert parameter.grad is not None, key
        assert bool(parameter.grad.isfinite().all()), key


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("size", "edges"),
    [
        (1, []),
        (1, [(0, 0)]),
        (4, []),
        (3, [(0, 1), (1, 0), (0, 1), (1, 0), (2, 2)]),
    ],
    ids=["one node", "one node with a loop", "no edges", "loops and repeated edges"],
)
def test_odd_graphs_have_finite_answers_and_gradients(name, size, edges):
    made = network(name)
    x = torch.rand(size, 2, dtype=torch.float64)
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    node_targets, graph_targets = made(x, edge_index)
    (node_targets.sum() + graph_targets.sum()).backward()
    assert node_targets.shape == (size, 3)
    assert graph_targets.shape == (1, 3)
    assert bool(node_targets.isfinite().all())
    assert bool(graph_targets.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in made.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", ["gin", "sum", "pna", "binary-gru"])
def test_repeated_edges_and_loops_count(name):
    made = network(name)
    x, edges = random_graph(6, 2)
    plain = made(x, edges)[0]
    repeated = made(x, torch.cat([edges, edges[:, :1]], 1))[0]
    looped = made(x, torch.cat([edges, torch.tensor([[3], [3]])], 1))[0]
    assert not torch.allclose(plain, repeated)
    assert not torch.allclose(plain, looped)


def test_an_empty_graph_and_an_empty_batch_have_answers():
    made = network("pna")
    x, edges = random_graph(5, 0)
    batch = torch.ones(5, dtype=torch.long)
    node_targets, graph_targets = made(x, edges, batch, batch_size=3)
    torch.testing.assert_close(graph_targets[1], made(x, edges)[1][0])
    assert torch.equal(graph_targets[0], graph_targets[2])
    nothing = made(x[:0], edges[:, :0], batch[:0], batch_size=0)
    assert [part.shape for part in nothing] == [(0, 3), (0, 3)]
    assert node_targets.shape == (5, 3)


def test_all_layers_of_a_batch_share_one_plan(monkeypatch):
    made, plans = network("binary-gru", divide=False), []
    real = planning.plan_balanced
    counting = lambda sizes: plans.append(sizes) or real(sizes)  # noqa: E731
    monkeypatch.setitem(planning.REPEATABLE, "balanced", counting)
    made(*together([random_graph(9, seed) for seed in range(3)]))
    assert len(plans) == 1  # four layers of two towers


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("binary-gur", {}, "did you mean binary-gru"),
        ("gcn", {"associativity": 1.0}, "gcn takes no options; got associativity"),
        ("sum", {"channels": 1}, "1 channels; expected at least as many as inputs, 2"),
        ("sum", {"readout": "set2se"}, "unknown aggregator 'set2se'"),
        ("gat", {"channels": 6}, "4 heads cannot split 6 channels"),
    ],
)
def test_wrong_choices_are_named(name, options, message):
    with pytest.raises(ValueError, match=message):
        multi_task_network(name, **options)


def test_inputs_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"x has shape \(3, 5\); expected \[nodes, 2\]"):
        network("sum")(torch.zeros(3, 5), torch.zeros(2, 0, dtype=torch.long))
