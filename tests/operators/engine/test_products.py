"""Products in full and in half precision, of any number of rows and of any width."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from trees import normal, weighted

from treefold.fold import Groups, chain_reduce, fold_levels, plan_tree, tree_fold
from treefold.operators import BinaryGRU, RecurrentGRU
from treefold.operators.engine.operations import why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason="folds run in plain torch here")


class RoundedProduct(torch.autograd.Function):
    """`rows @ weight.t()` with factors rounded to bfloat16, there and back, and exact sums."""

    @staticmethod
    def forward(ctx, rows, weight):
        ctx.save_for_backward(rows, weight)
        return rounded(rows) @ rounded(weight).t()

    @staticmethod
    def backward(ctx, grad):
        rows, weight = map(rounded, ctx.saved_tensors)
        return rounded(grad) @ weight, rounded(grad).t() @ rows


def rounded(x):
    return x.float().bfloat16().double()


class Rounded:
    """Binary-GRU with such products."""

    def __init__(self, op):
        self.cell, self.identity = op.cell, op.identity

    def gru(self, x, hidden):
        of_x = RoundedProduct.apply(x, self.cell.weight_ih) + self.cell.bias_ih
        of_hidden = RoundedProduct.apply(hidden, self.cell.weight_hh) + self.cell.bias_hh
        (reset, update, new), of_state = of_x.chunk(3, 1), of_hidden.chunk(3, 1)
        reset, update = torch.sigmoid(reset + of_state[0]), torch.sigmoid(update + of_state[1])
        new = torch.tanh(new + reset * of_state[2])
        return new + update * (hidden - new)

    def __call__(self, a, b):
        return (self.gru(a, b) + self.gru(b, a)) / 2


def results(fold, x, op):
    gradients = torch.autograd.grad(weighted(*fold), [x, *op.cell.parameters()])
    return [fold.groups, fold.nodes, *gradients]


@pytest.mark.parametrize("num_pairs", [0, 1, 7, 32, 66])
@pytest.mark.parametrize("channels", [1, 2, 6, 16, 33])
def test_half_precision_rounds_the_factors_and_nothing_else(num_pairs, channels):
    """One level: what rounding makes of a product is no factor of the next."""
    torch.manual_seed(0)
    op, plan = BinaryGRU(channels), plan_tree([2] * num_pairs)
    x = normal(2 * num_pairs, channels).float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = results(tree_fold(op, x, plan), x, op)
    op, x = op.double(), x.detach().double().requires_grad_()
    expected = results(fold_levels(Rounded(op), x, plan), x, op)
    for one, other in zip(found, expected, strict=True):
        # A gradient that float rounds the other way than double is one bfloat16 off.
        torch.testing.assert_close(one.double(), other, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("num_pairs", [1, 7, 32, 66])
@pytest.mark.parametrize("channels", [1, 6, 33])
def test_full_precision_rounds_nothing(num_pairs, channels):
    torch.manual_seed(0)
    op, plan, found = BinaryGRU(channels), plan_tree([2] * num_pairs), []
    for dtype in (torch.float32, torch.float64):
        x = normal(2 * num_pairs, channels).to(dtype).requires_grad_()
        op = op.to(dtype)
        found.append([each.double() for each in results(tree_fold(op, x, plan), x, op)])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def tangents(x):
    """tanh of half of the numbers, added to that of the others, in half precision."""
    op = BinaryGRU(1)
    for parameter in op.parameters():
        nn.init.zeros_(parameter)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        op.cell.weight_ih[2] = 1.0
        op.cell.bias_ih[1] = -1e4  # update gates are shut
        return 2 * tree_fold(op, x.view(-1, 1), plan_tree([2] * (len(x) // 2))).groups.view(-1)


def test_numbers_are_rounded_as_torch_rounds_them():
    bits = torch.arange(0x3C000000, 0x40000000, 0x1357, dtype=torch.int64)
    ties = (bits & 0xFFFF0000) | 0x8000
    x = torch.cat([bits, ties]).to(torch.int32).view(torch.float32)
    x = torch.stack([x, torch.zeros_like(x)], 1).flatten()
    expected = torch.tanh(rounded(x))[::2]
    torch.testing.assert_close(tangents(x).double(), expected, atol=5e-7, rtol=0)


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, 0x7F800001, -0x400000])
def test_what_is_not_a_number_stays_so(bits):
    x = torch.tensor([bits, 0], dtype=torch.int32).view(torch.float32)
    assert tangents(x).isnan().all()


def test_a_chain_in_half_precision_is_as_close_as_rounding_allows():
    torch.manual_seed(0)
    cell, groups, found = RecurrentGRU(17), Groups.from_sizes([3, 0, 70, 1, 20]), []
    x = torch.randn(94, 17, requires_grad=True)
    for half in (True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            out = chain_reduce(cell, x, groups, cell.initial)
        assert out.dtype == torch.float32
        found.append([out, *torch.autograd.grad(weighted(out), [x, *cell.parameters()])])
    for one, other in zip(*found, strict=True):
        assert 0 < (one - other).norm() <= 0.02 * other.norm()


def test_onednn_may_be_switched_off_between_a_fold_and_its_gradient(monkeypatch):
    op, x = BinaryGRU(4), normal(4, 4, dtype=torch.float32).requires_grad_()
    found = []
    for enabled in (True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = tree_fold(op, x, plan_tree([4])).groups
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", enabled)
        found.append(torch.autograd.grad(weighted(out), [x, *op.cell.parameters()]))
    for one, other in zip(*found, strict=True):
        assert (one - other).norm() <= 0.02 * other.norm()


FOLDING = """
import torch
from treefold import BinaryGRU, plan_tree, tree_reduce
torch.manual_seed(0)
op, x = BinaryGRU(6), torch.randn(20, 6, requires_grad=True)
found = []
for half in (True, False):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        out = tree_reduce(op, x, plan_tree([13, 7]))
    found.append([out, *torch.autograd.grad(out.sum(), [x, *op.cell.parameters()])])
assert all((a - b).norm() <= 0.02 * b.norm() for a, b in zip(*found))
print("as close as rounding allows")
"""


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
@pytest.mark.parametrize("instructions", ["AVX2", "AVX512_CORE"])
def test_a_cpu_without_instructions_for_bfloat16_multiplies_too(name, instructions):
    answer = subprocess.run(
        [sys.executable, "-c", FOLDING],
        env={**os.environ, name: instructions},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "as close as rounding allows"
