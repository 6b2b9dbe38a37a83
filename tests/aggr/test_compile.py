"""torch.compile and torch.export: no graph break, few graphs, and the answers of eager."""

from functools import partial

import jaxtyping
import pytest
import torch
from aggr.cases import (
    CHANNELS,
    MONOIDS,
    Layer,
    Skewed,
    every,
    every_monoid,
    make,
    normal,
    seeded,
)
from torch import nn
from torch._dynamo.backends.debugging import aot_eager
from torch._subclasses import FakeTensorMode
from torch_geometric.nn import GAT, GCN, GIN, EdgeCNN, SAGEConv, Sequential

from treefold import (
    LCMAggregation,
    MonoidAggregation,
    RecurrentAggregation,
    record_penalties,
    static_plans,
    supplied_plan,
)
from treefold.algebra import (
    COMMUTATIVITY,
    BitwiseXor,
    Gcd,
    Histogram,
    KthMinimum,
    Law,
    LogSumExp,
    Max,
    Mean,
    Mode,
    Parity,
    Product,
    Sum,
    TopK,
    Variance,
)
from treefold.operators.engine import opaque

LARGEST = 8
SIZES = [(9, 20), (5, 7), (30, 44), (12, 31)]
"""Numbers of nodes and edges."""
IDEMPOTENCE = Law("idempotence", 1, lambda op, a: (op(a, a), a))
OWN_COMMUTATIVITY = Law("own commutativity", 2, COMMUTATIVITY.sides)
BALANCED = {"bracketing": "balanced", "consistency": 0.0}
ONE_LAYER = {"operator_options": {"num_layers": 1}}
OPTIONS = {
    "gated-selection-general": BALANCED,
    "finite-selection": BALANCED,
    "conjugated-sum": ONE_LAYER,
    "conjugated-max": ONE_LAYER,
}
"""Random trees are drawn outside of a graph, and consistency draws sets; flows are long."""
in_both_modes = pytest.mark.parametrize(
    "training", [pytest.param(False, marks=pytest.mark.long), True], ids=["evaluation", "training"]
)
"""Training is evaluation and more; the exported layers are in evaluation."""

# PyG 2.8 still uses torch.jit.script, which torch 2.13 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def _fresh():
    """No graphs of other tests; shape checks are not for torch.compile to look into."""
    torch._dynamo.reset()
    jaxtyping.config.update("jaxtyping_disable", True)
    with static_plans(LARGEST):
        yield
    jaxtyping.config.update("jaxtyping_disable", False)
    torch._dynamo.reset()


class CountingBackend:
    """Traces forward and backward, runs them as they are, and counts graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1
        return aot_eager(graph, inputs)


class Network(nn.Module):
    """Two layers, and a readout of five sets of nodes."""

    def __init__(self, first, second, readout):
        super().__init__()
        self.first, self.second = Layer(first, CHANNELS), Layer(second, CHANNELS)
        self.readout = readout

    def forward(self, x, edge_index):
        x = self.second(self.first(x, edge_index).relu(), edge_index)
        return self.readout(x, torch.arange(x.shape[0]) % 5, dim_size=5)


def layer(name, **options):
    """A layer around the aggregator of that name, in the order of its rows."""
    aggregator = make(name, torch.float32, **OPTIONS.get(name, {}), **options)
    for part in aggregator.modules():
        if hasattr(part, "shuffle"):
            part.shuffle = False
    return Layer(aggregator)


def graph(num_nodes, num_edges, seed=0):
    """Edges to half of the nodes only, the first six to node 0, which is a hub."""
    x = normal(num_nodes, CHANNELS, seed=seed, dtype=torch.float32)
    numbers = torch.arange(num_edges)
    to = torch.where(numbers < 6, 0, 1 + (numbers * 11) % (num_nodes // 2 - 1))
    return x, torch.stack([numbers % num_nodes, to])


def planned(model, *inputs):
    """The model's answer without any of this."""
    settings = treefold_settings()
    settings.requested = False
    try:
        return model(*inputs)
    finally:
        settings.requested = True


def treefold_settings():
    from treefold.aggr import static  # noqa: PLC0415

    return static._settings


def trained(model, run, inputs):
    """The loss with penalties, and all gradients."""
    model.zero_grad()
    with record_penalties() as penalties:
        loss = run(*inputs).square().sum()
    loss = loss + penalties.total()
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters())]


def assert_compiles(model, training=True, num_graphs=2):
    """Batches of several sizes, in few graphs."""
    backend = CountingBackend()
    compiled = torch.compile(model.train(training), fullgraph=True, dynamic=True, backend=backend)
    for number, sizes in enumerate(SIZES):
        inputs = graph(*sizes, seed=number)
        if training:
            found = trained(model, compiled, inputs)
            expected = trained(model, partial(planned, model), inputs)
        else:
            with torch.no_grad():
                found, expected = compiled(*inputs), planned(model, *inputs)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert backend.graphs <= num_graphs  # torch starts again where it finds a number to be fixed


@every
@in_both_modes
def test_a_layer_is_one_graph_and_gives_the_answers_of_eager(name, training):
    assert_compiles(layer(name), training)


@pytest.mark.parametrize("name", ["binary-gru-assoc", "gated-selection"])
def test_what_folds_in_cpp_is_one_graph_without_it_too(name, monkeypatch):
    monkeypatch.setattr(opaque, "_are_at_hand", lambda: False)
    assert_compiles(layer(name))


@pytest.mark.long
@every
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_a_network_of_two_layers_and_a_readout_is_one_graph(name, training):
    assert_compiles(Network(*(layer(name).aggregator for _ in range(3))), training)


def test_layers_and_a_readout_may_each_have_a_plan_made_outside():
    carry = {"eval_bracketing": "carry"}
    model = Network(*(LCMAggregation(CHANNELS, Skewed(), **carry) for _ in range(3))).eval()
    backend = CountingBackend()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for number, (num_nodes, num_edges) in enumerate(SIZES):
        x, edge_index = graph(num_nodes, num_edges, seed=number)
        of_nodes = torch.arange(num_nodes) % 5
        with (
            supplied_plan(edge_index[1], num_nodes, "carry", shuffle=False),
            supplied_plan(of_nodes, 5, "carry", shuffle=False),
        ):
            found = compiled(x, edge_index)
        torch.testing.assert_close(found, planned(model, x, edge_index))
    assert backend.graphs <= 2  # torch may take a first length for one that is fixed


def test_a_network_of_pyg_layers_is_one_graph():
    first, second = (make("binary-gru-assoc", torch.float32, shuffle=False) for _ in range(2))
    convs = [SAGEConv(CHANNELS, CHANNELS, aggr=first), SAGEConv(CHANNELS, 2, aggr=second)]
    steps = [(convs[0], "x, edges -> x"), nn.ReLU(), (convs[1], "x, edges -> x")]
    assert_compiles(Sequential("x, edges", steps))


def test_an_operator_of_ones_own_is_one_graph():
    assert_compiles(Layer(LCMAggregation(CHANNELS, Skewed(), shuffle=False)))


@pytest.mark.parametrize(
    "weights",
    [
        {"associativity": 1.0, "commutativity": 0.5, "identity": 0.1},
        {"laws": {IDEMPOTENCE: 1.0}, "law_reduction": "mean", "associativity": 1.0},
    ],
)
def test_law_losses_are_those_of_eager(weights):
    assert_compiles(Layer(LCMAggregation(CHANNELS, Skewed(), shuffle=False, **weights)))


def test_sampled_law_losses_are_right_on_average():
    x, edge_index = graph(12, 31)
    losses = {}
    for law_nodes in (None, 3):
        weights = {"associativity": 1.0, "commutativity": 1.0, "laws": {IDEMPOTENCE: 1.0}}
        torch.manual_seed(0)
        module = LCMAggregation(CHANNELS, Skewed(), law_nodes=law_nodes, shuffle=False, **weights)
        with record_penalties() as penalties:
            for _ in range(1 if law_nodes is None else 400):
                module(x[edge_index[0]], edge_index[1], dim_size=12)
        losses[law_nodes] = penalties.by_law()
    for law, expected in losses[None].items():
        assert losses[3][law] == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("law", [OWN_COMMUTATIVITY, "consistency"])
def test_laws_that_draw_their_elements_vanish_where_they_hold(law):
    weights = {"consistency": 1.0} if law == "consistency" else {"laws": {law: 1.0}}
    x, edge_index = graph(12, 31)
    for operator, holds in [(Sum(), True), (Skewed(), False)]:
        module = LCMAggregation(CHANNELS, operator, **weights)
        with record_penalties() as penalties:
            module(x[edge_index[0]], edge_index[1], dim_size=12)
        assert (float(penalties.total()) < 1e-8) == holds


MONOID_CASES = [
    *(Sum(), Max(), Mean(), Variance(), KthMinimum(2), TopK(2), LogSumExp()),
    *(Product(Sum(), Max()), Gcd(), BitwiseXor(), Parity(), Histogram(3), Mode(3)),
]


@pytest.mark.long
@pytest.mark.parametrize("monoid", MONOID_CASES, ids=repr)
def test_exact_monoids_are_one_graph(monoid):
    module, backend = MonoidAggregation(monoid), CountingBackend()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=backend)
    for num_nodes, num_edges in SIZES[:3]:
        x, (_, to) = torch.randint(0, 3, (num_edges, 2)), graph(num_nodes, num_edges)[1]
        if isinstance(monoid, (Mean, Variance, LogSumExp)):
            x = x.float()
        found, expected = (
            compiled(x, to, dim_size=num_nodes),
            planned(module, x, to, None, num_nodes),
        )
        torch.testing.assert_close(found, expected, equal_nan=True)  # no variance of nothing
    assert backend.graphs == 1


@every
def test_an_exported_layer_runs_on_graphs_of_other_sizes(name):
    model, dynamic = layer(name).eval(), torch.export.Dim.DYNAMIC
    exported = torch.export.export(
        model, graph(9, 20), dynamic_shapes=({0: dynamic}, {1: dynamic})
    ).module()
    for sizes in [*SIZES, (40, 3), (6, 20)]:
        inputs = graph(*sizes)
        with torch.no_grad():
            torch.testing.assert_close(
                exported(*inputs), planned(model, *inputs), rtol=1e-4, atol=1e-5
            )


@every
def test_tensors_without_values_give_the_shape(name):
    module = make(name, torch.float32)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x, index = (
            mode.from_tensor(each) for each in (torch.ones(7, 3, CHANNELS), torch.arange(7))
        )
        found = module(x, index, dim_size=5, dim=0)
    assert found.shape == (5, 3, module.out_channels)


@every_monoid
def test_tensors_on_the_device_meta_give_the_shape(name):
    module = make(name, torch.float32).to("meta")
    x, index = torch.ones(7, CHANNELS, device="meta"), torch.arange(7, device="meta")
    assert module(x, index, dim_size=5).shape == (5, CHANNELS)
    with pytest.raises(ValueError, match="dim_size is missing"):
        module(x, index)


@pytest.mark.parametrize("network", [GCN, GIN, GAT, EdgeCNN])
@pytest.mark.parametrize(
    "name", [None, *(pytest.param(name, marks=pytest.mark.long) for name in ("sum", "binary-gru"))]
)
def test_networks_of_pyg_have_no_graph_break(network, name):
    heads = {"heads": 1} if network is GAT else {}
    aggr = MonoidAggregation(Sum()) if name is None else make(name, torch.float32)
    model = network(CHANNELS, CHANNELS, 2, aggr=aggr, **heads).eval()
    backend = CountingBackend()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for sizes in SIZES[:3]:
        inputs = graph(*sizes)
        torch.testing.assert_close(compiled(*inputs), planned(model, *inputs))
    assert backend.graphs <= 2


def test_shuffling_when_compiled_follows_the_seed():
    module = LCMAggregation(CHANNELS, Skewed())
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=CountingBackend())
    x, index = normal(24, CHANNELS, dtype=torch.float32), torch.arange(24) % 3
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(compiled(x, index, dim_size=3))
    torch.testing.assert_close(outs[0], outs[1])
    assert not torch.allclose(outs[0], outs[2])


def test_penalties_are_recorded_inside_a_compiled_step():
    model = layer("binary-gru-assoc").train()

    def step(*inputs):
        with record_penalties() as penalties:
            out = model(*inputs)
        return out.square().sum() + penalties.total()

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=CountingBackend())
    inputs = graph(9, 20)
    torch.testing.assert_close(compiled(*inputs), step(*inputs))


def test_groups_from_ptr_or_as_one_set_are_compiled():
    module = LCMAggregation(CHANNELS, Skewed()).eval()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=CountingBackend())
    x, ptr = normal(8, CHANNELS, dtype=torch.float32), torch.tensor([0, 2, 2, 8])
    torch.testing.assert_close(compiled(x, ptr=ptr), planned(module, x, None, ptr))
    torch.testing.assert_close(compiled(x), planned(module, x))


@pytest.mark.parametrize("num_rows", [0, 1])
def test_no_row_and_one_row_have_graphs_of_their_own(num_rows):
    module = LCMAggregation(CHANNELS, Skewed()).eval()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=CountingBackend())
    x, index = torch.ones(num_rows, CHANNELS), torch.zeros(num_rows, dtype=torch.int64)
    torch.testing.assert_close(compiled(x, index, dim_size=3), planned(module, x, index, None, 3))


def test_what_cannot_be_compiled_is_refused_in_one_line():
    x, index = normal(9, CHANNELS, dtype=torch.float32), torch.arange(9) % 3
    general = make("gated-selection-general", torch.float32).train()
    with pytest.raises(ValueError, match=r"bracketing is 'random'.*bracketing='balanced'"):
        general(x, index, dim_size=3)
    drawing = LCMAggregation(CHANNELS, Skewed(), generator=torch.Generator())
    with pytest.raises(ValueError, match=r"there is a generator.*torch\.manual_seed"):
        drawing(x, index, dim_size=3)
    module = make(MONOIDS[0], torch.float32)
    with pytest.raises(
        ValueError, match="a group has 9 rows; this fold was recorded for at most 4"
    ):
        module(x, torch.zeros_like(index), dim_size=3, max_num_elements=4)
    with pytest.raises(ValueError, match="max_num_elements is 0; expected the size of the larg"):
        static_plans(0).__enter__()


WEIGHTS = {"associativity": 1.0, "commutativity": 0.5, "identity": 0.1}


@pytest.mark.parametrize(
    ("name", "bracketing"),
    [
        (None, "random"),
        pytest.param(None, "carry", marks=pytest.mark.long),
        pytest.param(None, "balanced", marks=pytest.mark.long),
        *(
            pytest.param(name, "random", marks=pytest.mark.long)
            for name in ("gated-selection-general", "finite-selection", "binary-gru-assoc")
        ),
    ],
)
def test_plans_of_any_bracketing_may_be_made_outside_of_the_graph(name, bracketing):
    options = {"bracketing": bracketing, "shuffle": False, "consistency": 0.0, **WEIGHTS}
    if name is None:
        module = LCMAggregation(CHANNELS, Skewed(), **options)
    else:
        module = make(name, torch.float32, **options).train()
    backend = CountingBackend()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=backend)
    for number, (num_nodes, num_edges) in enumerate(SIZES):
        to = graph(num_nodes, num_edges)[1][1]
        x = normal(num_edges, CHANNELS, dtype=torch.float32)
        given = {"shuffle": False, "generator": seeded(number)}
        with supplied_plan(to, num_nodes, bracketing, **given):
            found = trained(module, partial(compiled, dim_size=num_nodes), (x, to))
        module.generator = seeded(number)
        expected = trained(module, partial(planned, module), (x, to, None, num_nodes))
        module.generator = None
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert backend.graphs <= 3


def test_orders_are_averaged_and_the_swap_loss_is_that_of_eager():
    for options in ({"permutations": 3}, {"swap": 1.0}):
        assert_compiles(Layer(RecurrentAggregation(CHANNELS, shuffle=False, **options)))
