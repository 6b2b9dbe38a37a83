"""Every aggregator of the registry is a module like others: seeded, copied, saved, transformed."""

import copy
import io
import pickle

import pytest
import torch
from aggr.cases import (
    CHANNELS,
    FIXED,
    UNSORTED,
    X,
    every,
    every_learned,
    make,
    recording,
)
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

from treefold.operators.engine.operations import why_not

# Repetition


@pytest.fixture
def deterministic():
    """Torch refuses what is not deterministic, and fills fresh memory with NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@every
@pytest.mark.parametrize("training", [False, True])
def test_a_seed_settles_every_bit(name, training):
    outs = []
    for _ in range(3):
        module, x = make(name).train(training), X.clone().requires_grad_()
        torch.manual_seed(5)
        with recording(module) as penalties:
            out = module(x, UNSORTED)
        (out.square().sum() + sum(penalties or [])).backward()
        outs.append([out, x.grad, *(p.grad for p in module.parameters())])
    assert all(
        torch.equal(*pair) for again in outs[1:] for pair in zip(outs[0], again, strict=True)
    )


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_deterministic_algorithms_can_be_asked_for(name, dtype, deterministic):
    module, x = make(name, dtype).train(), X.to(dtype, copy=True).requires_grad_()
    with recording(module) as penalties:
        out = module(x, UNSORTED, dim_size=9)
    (out.square().sum() + sum(penalties or [])).backward()
    for tensor in (out, x.grad, *(p.grad for p in module.parameters())):
        assert tensor.isfinite().all()


@every
def test_copies_and_checkpoints_agree_to_the_bit(name):
    module = make(name)
    expected = module(X, UNSORTED)
    checkpoint = io.BytesIO()
    torch.save(module.state_dict(), checkpoint)
    checkpoint.seek(0)
    loaded = make(name, seed=1)
    loaded.load_state_dict(torch.load(checkpoint, weights_only=True))
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded):
        assert torch.equal(twin(X, UNSORTED), expected)


@every
def test_a_copy_does_not_share_parameters(name):
    module = make(name)
    twin, expected = copy.deepcopy(module), module(X, UNSORTED)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(module(X, UNSORTED), expected)


@every_learned
def test_resetting_draws_every_parameter_anew_under_the_seed(name):
    module = make(name)
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        module.reset_parameters()
        states.append(copy.deepcopy(module.state_dict()))
    first, same, other = states
    assert all(torch.equal(first[key], same[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@every
def test_inference_mode_gives_the_same(name):
    module = make(name)
    with torch.inference_mode():
        out = module(X.clone(), UNSORTED.clone())
    torch.testing.assert_close(out, module(X, UNSORTED))


@every
@pytest.mark.skipif(why_not() is not None, reason="nothing is compiled here")
def test_a_small_batch_is_aggregated_by_one_thread(name, monkeypatch):
    module, seen = make(name), []

    def aggregate(x, groups):
        seen.append(torch.get_num_threads())
        return type(module).aggregate(module, x, groups)

    monkeypatch.setattr(module, "aggregate", aggregate)
    torch.set_num_threads(2)  # set back by a fixture
    module(X, UNSORTED)
    wide = X.repeat(100_000, 1)
    if name in FIXED:  # the others would take long
        module(wide, UNSORTED.repeat(100_000))
    assert seen == [1, 2][: len(seen)]
    assert torch.get_num_threads() == 2


@every
def test_printing_names_the_class(name):
    assert type(make(name)).__name__ in repr(make(name))


# Transformations


class Network(nn.Module):
    """An aggregator inside something else."""

    def __init__(self, aggregator):
        super().__init__()
        self.before, self.aggregator = nn.Linear(CHANNELS, CHANNELS).double(), aggregator

    def forward(self, x, index):
        return self.aggregator(self.before(x), index)


@every
@pytest.mark.parametrize("around", [lambda module: module, Network], ids=["alone", "inside"])
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_trace_and_script_are_refused_with_what_to_use_instead(name, around):
    module = around(make(name))
    with pytest.raises(RuntimeError, match=r"jit\.trace records one batch's plan.*torch\.export"):
        torch.jit.trace(module, (X, UNSORTED))
    with pytest.raises(RuntimeError, match=r"jit\.script cannot take \w+Aggregation.*torch\.expor"):
        torch.jit.script(module)


@every
def test_forward_mode_and_batched_gradients_are_right(name):
    module, x = make(name), X.clone().requires_grad_()
    checks = {"check_forward_ad": True, "check_batched_grad": True}
    assert gradcheck(lambda x: module(x, UNSORTED), (x,), fast_mode=True, **checks)


@every_learned
def test_vmap_over_parameters_is_a_loop_over_modules(name):
    modules = [make(name, seed=seed) for seed in range(3)]
    parameters, buffers = torch.func.stack_module_state(modules)

    def run(parameters, buffers):
        return functional_call(modules[0], (parameters, buffers), (X,), {"index": UNSORTED})

    together = torch.func.vmap(run)(parameters, buffers)
    torch.testing.assert_close(together, torch.stack([module(X, UNSORTED) for module in modules]))


@every_learned
def test_gradients_per_model_are_a_loop_over_modules(name):
    modules = [make(name, seed=seed) for seed in range(2)]
    parameters, _ = torch.func.stack_module_state(modules)

    def loss(parameters):
        return functional_call(modules[0], parameters, (X,), {"index": UNSORTED}).square().sum()

    together = torch.func.vmap(torch.func.grad(loss))(parameters)
    for number, module in enumerate(modules):
        module(X, UNSORTED).square().sum().backward()
        for key, parameter in module.named_parameters():
            torch.testing.assert_close(together[key][number], parameter.grad)
