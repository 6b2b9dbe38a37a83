"""Binary-GRU's gates: where they saturate, what is not a number, and any width."""

import pytest
import torch
from torch import nn
from trees import normal

from treefold.fold import plan_tree, tree_fold, tree_reduce
from treefold.operators import BinaryGRU
from treefold.operators.engine.operations import why_not

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
BIASES = ["bias_ih", "bias_hh"]


@pytest.fixture(params=["in C++", "in torch"], autouse=True)
def _backend(request, monkeypatch):
    if request.param == "in torch":
        monkeypatch.setattr("treefold.operators.engine.folding.can_compute", lambda *_: False)
    elif why_not() is not None:
        pytest.skip("folds run in plain torch here")


def without_weights(channels, dtype):
    op = BinaryGRU(channels).to(dtype)
    for parameter in op.parameters():
        nn.init.zeros_(parameter)
    return op


def combined(op, a, b):
    """a ⊕ b, as a fold of sets of two."""
    rows = torch.stack([a, b], 1).flatten(0, 1)
    return tree_reduce(op, rows, plan_tree([2] * len(a))).detach()


@DTYPES
@pytest.mark.parametrize("channels", [1, 3, 16, 33, 128])
def test_a_fold_of_two_is_the_mean_of_both_cells(channels, dtype):
    torch.manual_seed(0)
    op = BinaryGRU(channels).to(dtype)
    a, b = (normal(5, channels, seed=seed, dtype=dtype) for seed in (1, 2))
    with torch.no_grad():
        expected = (op.cell(a, b) + op.cell(b, a)) / 2
    torch.testing.assert_close(combined(op, a, b), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("channels", [1, 17, 32, 48])
def test_gradients_of_any_width_are_those_of_torchs_cell(channels):
    torch.manual_seed(0)
    op = BinaryGRU(channels).double()
    a, b = (normal(5, channels, seed=seed).requires_grad_() for seed in (1, 2))
    grad = normal(5, channels, seed=3)
    inputs = [a, b, *op.cell.parameters()]
    rows = torch.stack([a, b], 1).flatten(0, 1)
    nodes = tree_fold(op, rows, plan_tree([2] * 5)).nodes
    expected = (op.cell(a, b) + op.cell(b, a)) / 2
    found, wanted = (torch.autograd.grad(out, inputs, grad) for out in (nodes, expected))
    torch.testing.assert_close(found, wanted)


@DTYPES
def test_the_gates_saturate_without_losing_numbers(dtype):
    op, a = without_weights(1, dtype), torch.full((1, 1), 1e3, dtype=dtype)
    for size in (1e4, torch.inf):
        for name in BIASES:
            nn.init.constant_(getattr(op.cell, name), size)
        assert combined(op, a, -a).item() == 0.0  # open: ½ (b + a)
    for name in BIASES:
        nn.init.constant_(getattr(op.cell, name), -1e4)
    assert combined(op, a, -a).item() == -1.0  # shut: tanh(-∞)


@DTYPES
@pytest.mark.parametrize("gate", range(3))
@pytest.mark.parametrize("name", BIASES)
def test_what_is_not_a_number_stays_visible(dtype, gate, name):
    op, ones = without_weights(9, dtype), torch.ones(1, 9, dtype=dtype)
    with torch.no_grad():
        getattr(op.cell, name)[9 * gate + 4] = torch.nan
    assert combined(op, ones, ones).isnan().nonzero().tolist() == [[0, 4]]


@DTYPES
def test_the_faster_hyperbolic_tangent_is_as_accurate(dtype):
    op, x = without_weights(1, dtype), torch.linspace(-30, 30, 100_000, dtype=dtype).view(-1, 1)
    with torch.no_grad():
        op.cell.weight_ih[2] = 1.0
        op.cell.bias_ih[1] = -1e4  # update gates are shut
    a, b = x[::2], x[1::2]
    expected = (torch.tanh(a) + torch.tanh(b)) / 2
    error = 4e-16 if dtype == torch.float64 else 2.5e-7
    assert (combined(op, a, b) - expected).abs().max() <= error
