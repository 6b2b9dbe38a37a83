"""Small folds are done by one thread, however many torch has, and torch keeps its number."""

import threading

import pytest
import torch
from trees import normal

from treefold import BinaryGRU, plan_tree, tree_reduce
from treefold.operators.binary_gru_loops import compiled_loops
from treefold.operators.binary_gru_torch import TorchLoops
from treefold.operators.small_folds import is_small, one_thread

needs_numba = pytest.mark.skipif(compiled_loops() is None, reason="numba is not installed")


@pytest.fixture(autouse=True)
def _two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def test_inside_there_is_one_thread_and_outside_as_many_as_before():
    with one_thread(True):
        assert torch.get_num_threads() == 1
        with one_thread(True):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with one_thread(False):
        assert torch.get_num_threads() == 2


def test_an_error_inside_leaves_the_number_as_it_was():
    with pytest.raises(KeyError), one_thread(True):
        raise KeyError
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
    with one_thread(True):
        inside.set()
        looked.wait(60)
    thread.join()
    assert seen == [2]


def fold(num_rows, channels, dtype):
    """Forward and backward, of one set."""
    op, x = BinaryGRU(channels).to(dtype), normal(num_rows, channels).to(dtype).requires_grad_()
    tree_reduce(op, x, plan_tree([num_rows])).sum().backward()
    assert torch.get_num_threads() == 2


@needs_numba
@pytest.mark.parametrize(("num_rows", "channels", "small"), [(500, 16, True), (700, 60, False)])
def test_a_compiled_fold_is_shared_only_if_it_is_worth_it(monkeypatch, num_rows, channels, small):
    from treefold.operators import binary_gru_compiled as compiled  # noqa: PLC0415 (needs numba)

    seen = []

    def looking(run):
        def look(*arguments):
            *_, size, num_threads = arguments
            seen.append((size.num_parts, num_threads, torch.get_num_threads()))
            return run(*arguments)

        return look

    monkeypatch.setattr("treefold.operators.binary_gru.can_fold", lambda *_: False)
    monkeypatch.setattr(compiled, "fold", looking(compiled.fold))
    monkeypatch.setattr(compiled, "fold_back", looking(compiled.fold_back))
    fold(num_rows, channels, torch.float32)
    parts = 1 if small else compiled.max_parts()
    together = 2 if not small and parts == 1 else 1
    assert seen == [(parts, together, 1 if small else 2)] * 2


@pytest.mark.parametrize(("num_rows", "small"), [(500, True), (8000, False)])
def test_a_fold_in_torchs_operations_is_shared_only_if_it_is_worth_it(monkeypatch, num_rows, small):
    seen = []

    def looking(run):
        def look(*arguments):
            seen.append(torch.get_num_threads())
            return run(*arguments)

        return look

    monkeypatch.setattr("treefold.operators.binary_gru.can_fold", lambda *_: False)
    monkeypatch.setattr(TorchLoops, "forward", looking(TorchLoops.forward))
    monkeypatch.setattr(TorchLoops, "backward", looking(TorchLoops.backward))
    fold(num_rows, 16, torch.float64)
    assert seen == [1 if small else 2] * 2


def test_small_is_what_takes_less_than_a_millisecond():
    assert is_small(500 * 16, 16)
    assert is_small(100 * 128, 128)
    assert not is_small(300 * 128, 128)
    assert not is_small(10_000 * 16, 16)
