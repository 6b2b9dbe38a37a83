"""ONNX Runtime gives the answers of eager on graphs of other sizes, and inductor does too."""

import jaxtyping
import pytest
import torch
from aggr.cases import CHANNELS, NAMES, Layer, make, normal

from treefold import RecurrentAggregation, record_penalties, static_plans

ONCE = ["std", "gru", "lstm", "binary-mlp"]
"""One for each path: PyG's own, both cells, and a fold."""

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _unchecked():
    """Shape checks are no part of what is to be traced."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
    torch._dynamo.reset()


def graph(num_nodes, num_edges):
    """Edges to a half of the nodes."""
    numbers = torch.arange(num_edges)
    x = normal(num_nodes, CHANNELS, dtype=torch.float32)
    return x, torch.stack([numbers % num_nodes, (numbers * 11) % (num_nodes // 2)])


def exported(model):
    """A function that runs the model in ONNX Runtime."""
    pytest.importorskip("onnxscript", reason="the extra `test` is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `test` is not installed")
    dynamic = torch.export.Dim.DYNAMIC
    with static_plans(8):
        program = torch.onnx.export(
            model,
            graph(9, 20),
            input_names=["x", "edge_index"],
            dynamic_shapes=({0: dynamic}, {1: dynamic}),
            dynamo=True,
            verbose=False,
        )
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())

    def run(x, edge_index):
        (out,) = session.run(None, {"x": x.numpy(), "edge_index": edge_index.numpy()})
        return torch.from_numpy(out)

    return run


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ONCE else pytest.mark.long) for name in NAMES]
)
def test_onnx_runtime_gives_the_answers_of_eager(name):
    model = Layer(make(name, torch.float32)).eval()
    run = exported(model)
    for sizes in [(9, 20), (20, 5), (30, 60), (6, 18)]:
        inputs = graph(*sizes)
        with torch.no_grad():
            expected = model(*inputs)
        torch.testing.assert_close(run(*inputs), expected, rtol=1e-3, atol=1e-4)


def test_several_orders_are_refused_in_onnx(monkeypatch):
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    module = RecurrentAggregation(CHANNELS, permutations=2).eval()
    x, index = torch.ones(3, CHANNELS), torch.zeros(3, dtype=torch.int64)
    with static_plans(8), pytest.raises(ValueError, match="permutations is 2; expected 1 in ONNX"):
        module(x, index, dim_size=1)


INDUCTOR = ["binary-mlp", "binary-gru", "gru"]
"""A fold by plan, one in C++, and a chain."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in INDUCTOR else pytest.mark.long) for name in NAMES],
)
@pytest.mark.parametrize(
    "training", [pytest.param(False, marks=pytest.mark.long), True], ids=["evaluation", "training"]
)
def test_inductor_gives_the_answers_and_gradients_of_eager(name, training):
    options = {"bracketing": "balanced", "consistency": 0.0} if name in RANDOM else {}
    module = make(name, torch.float32, **options)
    for part in module.modules():
        if hasattr(part, "shuffle"):
            part.shuffle = False
    model = Layer(module).train(training)
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    for sizes in [(9, 20), (20, 5), (30, 60)]:
        inputs, made = graph(*sizes), []
        with static_plans(8):
            made.append(answers(model, compiled, inputs))
        made.append(answers(model, model, inputs))
        torch.testing.assert_close(*made, rtol=1e-3, atol=1e-4)


RANDOM = ["gated-selection-general", "finite-selection"]


def answers(model, run, inputs):
    """The answers, and in training the gradients of a loss with penalties."""
    if not model.training:
        with torch.no_grad():
            return [run(*inputs)]
    model.zero_grad()
    with record_penalties() as penalties:
        out = run(*inputs)
    (out.square().sum() + penalties.total()).backward()
    return [out.detach(), *(parameter.grad.clone() for parameter in model.parameters())]
