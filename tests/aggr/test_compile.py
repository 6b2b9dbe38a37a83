"""torch.compile: a bounded number of graphs over batches of changing sizes, and equal answers."""

import pytest
import torch
from aggr.cases import CHANNELS, every, make, normal, recording
from torch import nn

from treefold import record_penalties, reuse_plans

NUM_BATCHES = 12

# Dynamo looks at `.grad` of whatever crosses a graph break.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")


class Model(nn.Module):
    """A small network around an aggregator."""

    def __init__(self, name, **options):
        super().__init__()
        self.before = nn.Linear(3, CHANNELS)
        self.aggregator = make(name, torch.float32, **options)
        self.after = nn.Linear(self.aggregator.out_channels, 2)

    def forward(self, x, index, num_groups):
        rows = torch.relu(self.before(x))
        return self.after(self.aggregator(rows, index, dim_size=num_groups))


class CountingBackend:
    """Runs graphs as they are and counts how many there are."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, graph, example_inputs):
        self.graphs += 1
        return graph.forward


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def batches(count=NUM_BATCHES):
    """Batches of which no two have as many rows or groups."""
    for number in range(count):
        num_rows, num_groups = 7 + 5 * number, 3 + 2 * number
        x = normal(num_rows, 3, seed=number, dtype=torch.float32)
        yield x, (torch.arange(num_rows) * 7919) % num_groups, num_groups


@every
def test_a_bounded_number_of_graphs_gives_the_answers_of_eager(name):
    model, backend = Model(name).eval(), CountingBackend()
    compiled = torch.compile(model, backend=backend)
    graphs = []
    for inputs in batches():
        torch.testing.assert_close(compiled(*inputs), model(*inputs))
        graphs.append(backend.graphs)
    assert graphs[0] > 0
    assert graphs[-1] <= 8
    assert len(set(graphs[3:])) == 1


@pytest.mark.parametrize("name", ["gru", "binary-gru-assoc"])
def test_training_needs_no_more_graphs_and_has_the_gradients_of_eager(name):
    backend = CountingBackend()
    model = Model(name, shuffle=False).train()
    compiled = torch.compile(model, backend=backend)
    graphs = []
    for inputs in batches(6):
        grads = []
        for module in (compiled, model):
            model.zero_grad()
            with record_penalties() as penalties:
                loss = module(*inputs).square().sum()
            (loss + penalties.total()).backward()
            grads.append([parameter.grad for parameter in model.parameters()])
        assert len(penalties) == (name == "binary-gru-assoc")
        for found, expected in zip(*grads, strict=True):
            torch.testing.assert_close(found, expected)
        graphs.append(backend.graphs)
    assert graphs[-1] <= 8
    assert len(set(graphs[3:])) == 1


def test_penalties_are_recorded_inside_a_compiled_step():
    model = Model("binary-gru-assoc", shuffle=False).train()

    def step(*inputs):
        with record_penalties() as penalties:
            out = model(*inputs)
        return out.square().sum() + penalties.total()

    compiled = torch.compile(step, backend=CountingBackend())
    for inputs in batches(3):
        torch.testing.assert_close(compiled(*inputs), step(*inputs))


def test_a_layer_applied_several_times_records_as_often_when_compiled():
    model = Model("binary-gru-assoc").train()

    def twice(*inputs):
        return model(*inputs) + model(*inputs)

    compiled = torch.compile(twice, backend=CountingBackend())
    for inputs in batches(3):
        with record_penalties() as penalties:
            compiled(*inputs)
        assert len(penalties) == 2


def test_plans_are_shared_around_compiled_models():
    model = Model("binary-mlp").eval()
    compiled = torch.compile(model, backend=CountingBackend())
    for inputs in batches(3):
        with reuse_plans():
            torch.testing.assert_close(compiled(*inputs), model(*inputs))


def test_bad_input_is_refused_when_compiled():
    compiled = torch.compile(Model("binary-mlp").eval(), backend=CountingBackend())
    x, index, _ = next(batches(1))
    with pytest.raises(ValueError, match="index holds 2"):
        compiled(x, index, 1)


def test_the_aggregator_alone_may_be_compiled():
    module = make("binary-gru", torch.float32)
    compiled = torch.compile(module, backend=CountingBackend())
    for number in range(4):
        x = normal(5 + number, CHANNELS, dtype=torch.float32)
        index = torch.arange(5 + number) % 3
        torch.testing.assert_close(compiled(x, index), module(x, index))


@pytest.mark.parametrize("name", ["binary-gru"])
def test_shuffling_when_compiled_follows_the_seed(name):
    model = Model(name).train()
    compiled = torch.compile(model, backend=CountingBackend())
    for inputs in batches(2):
        outs = []
        for module in (compiled, model):
            torch.manual_seed(3)
            with recording(model.aggregator):
                outs.append(module(*inputs))
        torch.testing.assert_close(*outs)
