"""Memory is used again once nobody holds it, and never before."""

import gc
import threading
from weakref import WeakSet

import pytest
import torch

from treefold.fold import plan_tree, tree_reduce
from treefold.operators import BinaryGRU, workspace
from treefold.operators.workspace import Lease

LIKE = torch.zeros((), dtype=torch.float64)


@pytest.fixture(autouse=True)
def _empty(monkeypatch):
    gc.collect()  # leases of other tests
    monkeypatch.setattr(workspace, "_idle", [])
    monkeypatch.setattr(workspace, "_use", workspace._Use())


def test_memory_is_used_again_once_its_lease_is_gone():
    lease = Lease((10, 3), LIKE)
    where = lease.tensor.data_ptr()
    del lease
    assert Lease((9, 3), LIKE).tensor.data_ptr() == where


def test_two_leases_never_share_memory():
    first, second = Lease((10,), LIKE), Lease((10,), LIKE)
    first.tensor.fill_(1)
    second.tensor.fill_(2)
    assert first.tensor.tolist() == [1] * 10


@pytest.mark.parametrize("wanted", [(100,), (1,)])
def test_blocks_too_small_or_wastefully_large_are_left_alone(wanted):
    idle = Lease((10,), LIKE)
    where = idle.tensor.data_ptr()
    del idle
    assert Lease(wanted, LIKE).tensor.data_ptr() != where


def test_types_are_kept_apart_and_shapes_are_those_asked_for():
    del_me = Lease((10,), LIKE)
    del del_me
    lease = Lease((2, 0, 3), LIKE.float())
    assert lease.tensor.dtype == torch.float32
    assert lease.tensor.shape == (2, 0, 3)


def idle_bytes():
    return sum(block.nbytes for block in workspace._idle)


def test_idle_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(workspace, "MAX_BYTES", 1000)
    for size in range(50, 100):
        Lease((size,), LIKE)
    assert 500 < idle_bytes() <= 1000 + 1.2 * 99 * 8  # the last to come back stays


def test_as_much_may_be_idle_as_was_in_use_at_once(monkeypatch):
    monkeypatch.setattr(workspace, "MAX_BYTES", 1000)
    leases = [Lease((50,), LIKE) for _ in range(10)]
    places = {lease.tensor.data_ptr() for lease in leases}
    leases.clear()
    assert idle_bytes() > 1000
    leases = [Lease((50,), LIKE) for _ in range(10)]
    assert {lease.tensor.data_ptr() for lease in leases} == places


def test_what_is_idle_makes_room_for_what_is_in_use(monkeypatch):
    monkeypatch.setattr(workspace, "MAX_BYTES", 1000)
    leases = [Lease((50,), LIKE) for _ in range(20)]
    most = workspace._use.most
    leases.clear()
    leases = [Lease((500,), LIKE) for _ in range(2)]
    assert workspace._use.now + idle_bytes() <= max(most, workspace._use.now + 1000)
    del leases


def test_what_was_used_last_is_what_is_kept(monkeypatch):
    """Or blocks of sizes that nobody asks for any more would keep out all others."""
    monkeypatch.setattr(workspace, "MAX_BYTES", 1000)
    for size in (10, 25, 60, 100):
        Lease((size,), LIKE)
    where = Lease((100,), LIKE).tensor.data_ptr()
    assert Lease((100,), LIKE).tensor.data_ptr() == where


def test_a_lease_that_ends_while_another_begins_does_not_disturb_it(monkeypatch):
    monkeypatch.setattr(workspace, "MAX_BYTES", 0)
    held = [Lease((size,), LIKE) for size in (1000, 20, 300)]
    workspace._idle.extend(torch.empty(size, dtype=LIKE.dtype) for size in (7, 22, 50))

    class Ending:
        """Ends a lease as soon as anything is compared with it: in the middle of the choice."""

        dtype, nbytes = LIKE.dtype, 0

        def numel(self):
            held.clear()
            return 0

    workspace._idle.insert(0, Ending())
    assert Lease((20,), LIKE)._block.numel() == 22


def gradients(out, x, op, retain):
    out.sum().backward(retain_graph=retain)
    found = [x.grad.clone(), *(p.grad.clone() for p in op.parameters())]
    x.grad = None
    op.zero_grad()
    return found


def test_a_graph_that_is_kept_gives_its_gradients_again_after_other_folds():
    torch.manual_seed(0)
    op, plan = BinaryGRU(4).double(), plan_tree([5, 3, 8])
    x = torch.randn(16, 4, dtype=torch.float64, requires_grad=True)
    out = tree_reduce(op, x, plan)
    once = gradients(out, x, op, retain=True)
    for _ in range(3):  # folds of the same size, which would take the memory if it were free
        tree_reduce(op, torch.randn(16, 4, dtype=torch.float64, requires_grad=True), plan)
    again = gradients(out, x, op, retain=False)
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))


def test_folds_in_threads_do_not_disturb_each_other():
    torch.manual_seed(0)
    op, plan = BinaryGRU(4).double(), plan_tree([5, 3, 8])
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


@pytest.fixture(params=["binary_gru_torch", "binary_gru_compiled"])
def leases(request, monkeypatch):
    """How many numbers each lease of a fold is for, and which leases are still held."""
    module = pytest.importorskip(f"treefold.operators.{request.param}")
    asked_for, held = [], WeakSet()

    class Watched(Lease):
        def __init__(self, shape, like):
            super().__init__(shape, like)
            asked_for.append(self.tensor.numel())
            held.add(self)

    monkeypatch.setattr(module, "Lease", Watched)
    monkeypatch.setattr("treefold.operators.binary_gru.can_fold", lambda *_: False)
    monkeypatch.setattr("treefold.operators.binary_gru_work.CHUNK", 100)
    if request.param == "binary_gru_torch":
        monkeypatch.setattr("treefold.operators.binary_gru_loops.compiled_loops", lambda: None)
    return asked_for, held


def test_without_a_gradient_to_come_nothing_is_kept_for_it(leases):
    asked_for, held = leases
    op, plan = BinaryGRU(4), plan_tree([100])
    x = torch.randn(100, 4, requires_grad=True)
    states, gates = (100 + 99) * 4, 2 * 99 * 4 * 4
    out = tree_reduce(op, x, plan)
    with_gradient = sum(asked_for)
    assert states + gates <= sum(lease.tensor.numel() for lease in held) < states + gates + 200
    del out
    assert not held
    asked_for.clear()
    with torch.no_grad():
        tree_reduce(op, x, plan)
    assert not held
    assert states <= sum(asked_for) < with_gradient - 0.8 * gates


def fold_of_a_batch():
    torch.manual_seed(0)
    x = torch.randn(70, 8, requires_grad=True)
    return x, tree_reduce(BinaryGRU(8), x, plan_tree([40, 30])).square().sum()


def test_a_loss_that_is_kept_holds_no_memory_once_its_gradient_is_taken(monkeypatch):
    monkeypatch.setattr("treefold.operators.binary_gru.can_fold", lambda *_: False)
    _, loss = fold_of_a_batch()
    held = len(workspace._idle)
    loss.backward()
    assert len(workspace._idle) > held
    assert torch.isfinite(loss)


def test_a_graph_that_is_retained_keeps_what_its_next_gradient_needs():
    x, loss = fold_of_a_batch()
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_idle_memory_can_be_given_back():
    lease = Lease((10,), LIKE)
    del lease
    assert workspace._idle
    workspace.release()
    assert not workspace._idle
