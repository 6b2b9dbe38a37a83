"""Memory is used again once nobody holds it, and never before."""

import subprocess
import sys
import threading

import pytest
import torch

from treefold.fold import plan_tree, tree_fold, tree_reduce
from treefold.operators import BinaryGRU, GatedSelection
from treefold.operators.engine.operations import why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason="folds run in plain torch here")

OPERATORS = pytest.mark.parametrize("kind", [BinaryGRU, GatedSelection])

IDLE = """
import torch
from treefold import BinaryGRU, plan_tree, tree_reduce
from treefold.operators import release

def megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

op = BinaryGRU(64)

def fold(num_rows):
    x = torch.randn(num_rows, 64, requires_grad=True)
    torch.autograd.grad(tree_reduce(op, x, plan_tree([num_rows])).sum(), x)

fold(100)
at_first = megabytes()
for num_rows in (20_000, 20_000, 30_000, 40_000):
    fold(num_rows)
idle = megabytes()
release()
print(idle - at_first, megabytes() - at_first)
"""


def states_of(op, num_rows):
    """The states that a fold keeps: its nodes are a part of it."""
    x = torch.randn(num_rows, op.channels, requires_grad=True)
    return tree_fold(op, x, plan_tree([num_rows])).nodes


@OPERATORS
def test_memory_is_used_again_once_nobody_holds_it(kind):
    op = kind(32)
    first = states_of(op, 1000)
    where = first.untyped_storage().data_ptr()
    second = states_of(op, 1000)
    assert second.untyped_storage().data_ptr() != where
    del first
    assert states_of(op, 1000).untyped_storage().data_ptr() == where


def test_idle_memory_is_bounded_and_can_be_given_back():
    answer = subprocess.run(
        [sys.executable, "-c", IDLE], capture_output=True, text=True, check=True
    )
    idle, left = map(float, answer.stdout.split())
    assert 60 < idle < 450  # two states, what gradients need and buffers of 40,000 rows
    assert left < idle / 3


def gradients(out, x, op, retain):
    out.sum().backward(retain_graph=retain)
    found = [x.grad.clone(), *(p.grad.clone() for p in op.parameters())]
    x.grad = None
    op.zero_grad()
    return found


@OPERATORS
def test_a_graph_that_is_kept_gives_its_gradients_again_after_other_folds(kind):
    op, plan = kind(4).double(), plan_tree([5, 3, 8])
    x = torch.randn(16, 4, dtype=torch.float64, requires_grad=True)
    out = tree_reduce(op, x, plan)
    once = gradients(out, x, op, retain=True)
    for _ in range(3):  # folds of the same size, which would take the memory if it were free
        tree_reduce(op, torch.randn(16, 4, dtype=torch.float64, requires_grad=True), plan)
    again = gradients(out, x, op, retain=False)
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))


@OPERATORS
def test_folds_in_threads_do_not_disturb_each_other(kind):
    op, plan = kind(4).double(), plan_tree([5, 3, 8])
    inputs = [torch.randn(16, 4, dtype=torch.float64) for _ in range(4)]
    with torch.no_grad():
        expected = [tree_reduce(op, x, plan) for x in inputs]
    wrong = []

    def fold(x, answer):
        for _ in range(20):
            y = x.clone().requires_grad_()
            out = tree_reduce(op, y, plan)
            torch.autograd.grad(out.sum(), y)
            if not torch.equal(out, answer):
                wrong.append(out)

    threads = [
        threading.Thread(target=fold, args=pair) for pair in zip(inputs, expected, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@OPERATORS
def test_without_a_gradient_to_come_nothing_is_saved_for_it(kind):
    op, plan = kind(4), plan_tree([100])
    x = torch.randn(100, 4, requires_grad=True)
    (context,) = {each for each in [tree_reduce(op, x, plan).grad_fn] if each is not None}
    *_, states, saved = context.saved_tensors
    assert states.shape == (199, 4)
    assert saved.shape[0] == 99
    with torch.no_grad():
        assert tree_reduce(op, x, plan).grad_fn is None


@OPERATORS
def test_a_loss_that_is_kept_holds_no_memory_once_its_gradient_is_taken(kind):
    op, plan = kind(32), plan_tree([1000])
    loss = tree_reduce(op, torch.randn(1000, 32, requires_grad=True), plan).square().sum()
    where = states_of(op, 1000).untyped_storage().data_ptr()  # the loss holds another block
    before = {where}
    loss.backward()
    held = [states_of(op, 1000) for _ in range(2)]
    found = {each.untyped_storage().data_ptr() for each in held}
    assert len(found) == 2
    assert before < found
    assert torch.isfinite(loss)
