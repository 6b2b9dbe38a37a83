"""Small folds are done by one thread, however many torch has, and torch keeps its number."""

import subprocess
import sys
import threading

import pytest
import torch

import treefold
from treefold.operators import limit_threads, reset_threads
from treefold.operators.engine.operations import why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason="folds run in plain torch here")

FOLDING = """
import os, sys, torch
from treefold import BinaryGRU, GatedSelection, plan_tree, tree_reduce
torch.set_num_threads(2)
num_rows, channels, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
op = {"binary-gru": BinaryGRU, "gated-selection": GatedSelection}[kind](channels)
x, plan = torch.randn(num_rows, channels, requires_grad=True), plan_tree([num_rows])
weights = list(op.parameters())
tree_reduce(op, x[:2], plan_tree([2]))  # loads the library
before = len(os.listdir("/proc/self/task"))
torch.autograd.grad(tree_reduce(op, x, plan).sum(), [x, *weights])
print(len(os.listdir("/proc/self/task")) - before, torch.get_num_threads())
"""


@pytest.fixture(autouse=True)
def _two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def test_little_work_is_limited_to_one_thread_until_that_is_undone():
    before = limit_threads(500 * 16, 16)
    assert torch.get_num_threads() == 1
    assert limit_threads(500 * 16, 16) is None
    reset_threads(before)
    assert torch.get_num_threads() == 2
    assert limit_threads(1500 * 60, 60) is None
    assert torch.get_num_threads() == 2


def test_an_error_in_an_aggregator_leaves_the_number_as_it_was(monkeypatch):
    seen = []
    module = treefold.aggregator("binary-gru", 4)

    def fail(*_):
        seen.append(torch.get_num_threads())
        raise KeyError

    monkeypatch.setattr(module, "aggregate", fail)
    with pytest.raises(KeyError):
        module(torch.randn(3, 4), torch.zeros(3, dtype=torch.int64))
    assert seen == [1]
    assert torch.get_num_threads() == 2


def test_other_threads_keep_their_number():
    inside, looked, seen = threading.Event(), threading.Event(), []

    def elsewhere():
        torch.set_num_threads(2)
        inside.wait(60)
        seen.append(torch.get_num_threads())
        looked.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    before = limit_threads(100, 4)
    inside.set()
    looked.wait(60)
    reset_threads(before)
    thread.join()
    assert seen == [2]


@pytest.mark.parametrize("kind", ["binary-gru", "gated-selection"])
@pytest.mark.parametrize(("num_rows", "channels", "small"), [(500, 16, True), (1500, 60, False)])
def test_a_fold_is_shared_only_if_it_is_worth_it(kind, num_rows, channels, small):
    """Threads are started by the first work that is shared."""
    answer = subprocess.run(
        [sys.executable, "-c", FOLDING, str(num_rows), str(channels), kind],
        capture_output=True,
        text=True,
        check=True,
    )
    started, num_threads = answer.stdout.split()
    assert (int(started) > 0) is not small
    assert num_threads == "2"
