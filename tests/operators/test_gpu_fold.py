"""Folds off the CPU, tried on CPU tensors by Triton's interpreter."""

import logging
import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operators.gpu_cases import KINDS, interpreted, off_cpu, results, stirred
from trees import BRACKETINGS, normal, seeded

from treefold import LCMAggregation, record_penalties
from treefold.fold import TableRows, fold_levels, plan_tree, tree_reduce
from treefold.operators import BinaryGRU, GatedSelection, gpu
from treefold.operators.gpu import choice

SIZES = st.lists(st.integers(0, 9), max_size=6)
few = settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
kinds = pytest.mark.parametrize("kind", KINDS)


def plainly(operator, x, plan, rows):
    """The results of the fold in plain operations."""
    fold = fold_levels(operator, x, plan)
    loss = fold.groups.sin().sum() + fold.nodes.cos().sum()
    inputs = [rows, *operator.parameters()]
    grads = torch.autograd.grad(loss, inputs, allow_unused=True)
    filled = [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True)]
    return [fold.groups.detach(), fold.nodes.detach(), *filled]


def require_equal(found, expected, **tolerance):
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs.to(ours.dtype), **tolerance)


@kinds
@few
@given(sizes=SIZES, bracketing=st.sampled_from(BRACKETINGS))
def test_triton_gives_the_values_and_gradients_of_float64_references(
    monkeypatch, kind, sizes, bracketing
):
    gates, plan = interpreted(), plan_tree(sizes, bracketing, seeded())
    x = normal(plan.num_rows, 5).requires_grad_()
    expected = plainly(stirred(kind, 5), x, plan, x)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 2e-5)):
        narrow = x.detach().to(dtype).requires_grad_()
        with monkeypatch.context() as patched:
            off_cpu(patched, gates)
            found = results(stirred(kind, 5, dtype), narrow, plan, narrow)
        require_equal(found, expected, rtol=tolerance, atol=tolerance)


@kinds
def test_triton_folds_wide_rows_with_inner_axes_and_repeated_leaves(monkeypatch, kind):
    operator, plan = stirred(kind, 130), plan_tree([7, 1, 0, 12])
    table = normal(4, 2, 130).requires_grad_()
    x = TableRows(table, torch.randint(4, (20,), generator=seeded()))
    expected = plainly(operator, x, plan, table)
    off_cpu(monkeypatch, interpreted())
    require_equal(results(operator, x, plan, table), expected)


@kinds
def test_factors_may_be_bfloat16_and_states_stay_float32(monkeypatch, kind):
    operator, plan = stirred(kind, 16, torch.float32), plan_tree([9, 2, 0, 1, 6])
    x = normal(18, 16, dtype=torch.float32).requires_grad_()
    expected = results(operator, x, plan, x)
    off_cpu(monkeypatch, interpreted())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, plain = results(operator, x, plan, x), plainly(operator, x, plan, x)
    assert {each.dtype for each in found} == {torch.float32}
    for ours, theirs, exact in zip(found, plain, expected, strict=True):
        error = (theirs - exact).norm()  # of the same multiplications, one operator call per level
        assert (ours - exact).norm() <= 2 * error + 1e-3 * exact.norm()
    assert not torch.equal(found[1], expected[1])


def test_shared_subtrees_get_the_gradients_of_all_their_uses(monkeypatch):
    """Plans of laws meet a node more than once."""

    def gradients():
        torch.manual_seed(0)
        module = LCMAggregation(4, associativity=1.0, shuffle=False).double().train()
        x = normal(17, 4).requires_grad_()
        with record_penalties() as penalties:
            out = module(x, torch.arange(3).repeat_interleave(torch.tensor([5, 9, 3])))
        return torch.autograd.grad(out.sum() + sum(penalties), [x, *module.parameters()])

    expected = gradients()
    off_cpu(monkeypatch, interpreted())
    require_equal(gradients(), expected)


@kinds
def test_gradients_can_be_differentiated_again(monkeypatch, kind):
    off_cpu(monkeypatch, interpreted())
    operator, plan = stirred(kind, 3), plan_tree([3, 1, 0, 2])
    x = normal(6, 3).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: tree_reduce(operator, x, plan), (x,))


@pytest.mark.parametrize("operator", [BinaryGRU(4), GatedSelection(4)])
def test_a_backward_pass_can_be_run_twice(monkeypatch, operator):
    off_cpu(monkeypatch, interpreted())
    x = normal(6, 4, dtype=torch.float32).requires_grad_()
    out = tree_reduce(operator, x, plan_tree([3, 1, 0, 2])).sum()
    first = torch.autograd.grad(out, x, retain_graph=True)
    assert torch.equal(torch.autograd.grad(out, x)[0], first[0])


class Wrong:
    """Gates that are off by a little."""

    def __init__(self, gates):
        self.gates = gates

    def __getattr__(self, name):
        return getattr(self.gates, name)

    def forward(self, level, projections, states):
        self.gates.forward(level, projections, states)
        states[level.node : level.node + level.num_pairs].mul_(1.01)


@pytest.fixture
def on_a_cuda_device(monkeypatch):
    """Inside the choice of gates, CPU tensors count as those of a CUDA device."""
    choice.gates_for.cache_clear()
    monkeypatch.setattr(choice, "TRITON_DEVICES", ("cpu",))
    yield monkeypatch
    choice.gates_for.cache_clear()


def test_kernels_that_disagree_are_not_used_and_one_line_says_so(on_a_cuda_device, caplog):
    gates = interpreted()
    wrong = Wrong(gates.TritonBinaryGRU())
    on_a_cuda_device.setattr(choice, "gates_in_triton", lambda *_: wrong)
    on_a_cuda_device.setattr(choice, "ON_CPU", True)
    operator, plan = BinaryGRU(4), plan_tree([3, 1, 0, 2])
    x = normal(6, 4, dtype=torch.float32)
    with caplog.at_level(logging.WARNING, "treefold"):
        found = [tree_reduce(operator, x, plan) for _ in range(3)]
    (line,) = caplog.records
    assert "binary_gru folds in plain torch on cpu" in line.getMessage()
    for each in found:
        torch.testing.assert_close(each, fold_levels(operator, x, plan).groups)


@pytest.mark.parametrize("operator", [BinaryGRU(4), GatedSelection(4)])
def test_kernels_that_agree_are_used(on_a_cuda_device, caplog, operator):
    gates, launched = interpreted(), []
    launch = gates.launch

    def noted(kernel, *arguments, **constants):
        launched.append(kernel)
        launch(kernel, *arguments, **constants)

    on_a_cuda_device.setattr(gates, "launch", noted)
    on_a_cuda_device.setattr(choice, "ON_CPU", True)
    on_a_cuda_device.setitem(sys.modules, "treefold.operators.gpu.triton_gates", gates)
    on_a_cuda_device.setattr(gpu, "triton_gates", gates, raising=False)
    x, plan = normal(6, 4, dtype=torch.float32), plan_tree([3, 1, 0, 2])
    with caplog.at_level(logging.WARNING, "treefold"):
        tree_reduce(operator, x, plan)  # compares first
        launched.clear()
        found = tree_reduce(operator, x, plan)
    assert not caplog.records
    assert len(launched) == plan.depth * (1 if isinstance(operator, BinaryGRU) else 2)
    torch.testing.assert_close(found, fold_levels(operator, x, plan).groups)


def test_without_triton_folds_are_plain_and_one_line_says_so(on_a_cuda_device, caplog):
    on_a_cuda_device.setattr(choice, "find_spec", lambda name: None)
    on_a_cuda_device.setattr(choice, "ON_CPU", True)
    operator, x, plan = GatedSelection(4), normal(5, 4, dtype=torch.float32), plan_tree([3, 2])
    with caplog.at_level(logging.WARNING, "treefold"):
        found = [tree_reduce(operator, x, plan) for _ in range(2)]
    assert [line.getMessage() for line in caplog.records] == [
        "treefold: gated_selection folds in plain torch on cpu: triton is not installed"
    ]
    torch.testing.assert_close(found[1], fold_levels(operator, x, plan).groups)
