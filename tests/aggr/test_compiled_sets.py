"""Compiled and exported aggregators take sets in every form, padded ones with any mask."""

import jaxtyping
import pytest
import torch
from aggr.cases import CHANNELS, make
from fold.test_sets import FORMS, MASK, SIZES
from torch import nn
from torch._dynamo.backends.debugging import aot_eager

from treefold import static_plans
from treefold.algebra import map_state

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
DIMS = {0: torch.export.Dim("sets", min=2, max=64), 1: torch.export.Dim("places", min=2, max=8)}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    jaxtyping.config.update("jaxtyping_disable", True)
    with static_plans(8):
        yield
    jaxtyping.config.update("jaxtyping_disable", False)
    torch._dynamo.reset()


class Network(nn.Module):
    """A map of elements, and an aggregator of padded sets."""

    def __init__(self, name):
        super().__init__()
        self.linear = nn.Linear(CHANNELS, CHANNELS)
        self.aggregator = make(name, torch.float32)

    def forward(self, x, mask):
        return self.aggregator(self.linear(x), mask=mask)


def padded(sets, places, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sets, places, CHANNELS, generator=generator)
    return x, torch.rand(sets, places, generator=generator) < 0.6


def alone(model, x, mask):
    """Set by set, as a list without padding."""
    rows = model.linear(x)
    return model.aggregator([each[held] for each, held in zip(rows, mask, strict=True)])


@pytest.mark.parametrize("name", ["binary-gru", "gru", "conjugated-max", "pna"])
def test_one_graph_serves_padded_batches_of_all_sizes(name):
    model, graphs = Network(name).eval(), []

    def backend(graph, inputs):
        graphs.append(graph)
        return aot_eager(graph, inputs)

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for number, (sets, places) in enumerate([(3, 5), (7, 8), (4, 6)]):
        x, mask = padded(sets, places, number)
        found, expected = compiled(x, mask), alone(model, x, mask)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        gradients = [
            torch.autograd.grad(out.square().sum(), model.linear.weight)[0]
            for out in (found, expected)
        ]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
    assert len(graphs) <= 2


@pytest.mark.parametrize("name", ["binary-gru", "pna"])
def test_an_exported_network_takes_padded_batches_of_all_sizes(name):
    model = Network(name).eval()
    exported = torch.export.export(model, padded(3, 5), dynamic_shapes=(DIMS, DIMS)).module()
    for sets, places in [(3, 5), (11, 8)]:
        x, mask = padded(sets, places, sets)
        torch.testing.assert_close(exported(x, mask), alone(model, x, mask), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["list", "jagged", "cu_seqlens"])
def test_forms_without_padding_are_one_graph(form):
    module = make("binary-gru", torch.float32)
    sets = [torch.randn(size, CHANNELS) for size in SIZES]
    x, options = FORMS[form](sets)
    compiled = torch.compile(module, fullgraph=True, backend=aot_eager)
    torch.testing.assert_close(compiled(x, **options), module(sets), rtol=1e-4, atol=1e-5)


def test_weights_are_compiled_too():
    module, (x, mask) = make("mean", torch.float32), padded(4, 5)
    compiled = torch.compile(module, fullgraph=True, backend=aot_eager)
    weight = torch.rand(MASK.shape)
    found = compiled(x, mask=mask, weight=weight)
    expected = map_state(
        torch.nan_to_num,
        (x * (weight * mask)[..., None]).sum(1) / (weight * mask).sum(1, keepdim=True),
    )
    torch.testing.assert_close(found, expected)
