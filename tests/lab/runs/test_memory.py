"""The peak of memory is that of tensors alive at once, whatever ran before."""

import pytest
import torch

import treefold
from treefold.lab.runs import peak_memory
from treefold.lab.runs.memory import AliveBytes


def test_the_peak_is_what_a_step_holds_at_once():
    with AliveBytes() as alive:
        x = torch.zeros(1000, 1000, requires_grad=True)
        kept = (x * 2).exp().exp()  # both exponentials are needed for the gradient
        kept.sum().backward()
    # x, two exponentials, and two gradients of the backward pass
    assert alive.peak == pytest.approx(5 * 4e6, rel=1e-3)
    before = alive.now
    del x, kept
    assert alive.now == before - 3 * 4_000_000  # x, its gradient and the last exponential


def test_the_peak_does_not_depend_on_what_was_folded_before():
    op = treefold.BinaryGRU(8)

    def peak(size):
        x, plan = torch.randn(size, 8, requires_grad=True), treefold.plan_tree([size])
        with peak_memory(torch.device("cpu")) as found:
            treefold.tree_reduce(op, x, plan).sum().backward()
        return found.num_bytes

    peak(60)  # compiles
    alone = peak(60)
    peak(100)
    assert peak(60) == alone
