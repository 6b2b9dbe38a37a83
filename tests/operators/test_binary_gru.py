import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from trees import BRACKETINGS, normal, reference_reduce, seeded, weighted

from treefold.algebra import COMMUTATIVITY
from treefold.fold import TableRows, plan_tree, tree_fold, tree_reduce
from treefold.operators import BinaryGRU

RAGGED = [3, 0, 1, 8, 5, 2, 0, 1, 13]
TOTAL = sum(RAGGED)


def make(channels=4, dtype=torch.float64):
    torch.manual_seed(0)
    op = BinaryGRU(channels).to(dtype)
    nn.init.normal_(op.identity)
    return op


def formula(op, a, b):
    return (op.cell(a, b) + op.cell(b, a)) / 2


def test_it_is_the_mean_of_a_gru_cell_in_both_orders():
    op, a, b = make(), normal(9, 4, seed=1), normal(9, 4, seed=2)
    torch.testing.assert_close(op(a, b), formula(op, a, b), rtol=1e-12, atol=1e-12)


def test_its_gradients_are_those_of_the_formula():
    op = make()
    a, b = (normal(9, 4, seed=seed).requires_grad_() for seed in (1, 2))
    wanted = [a, b, *op.cell.parameters()]
    fast, slow = (
        torch.autograd.grad(weighted(out), wanted) for out in (op(a, b), formula(op, a, b))
    )
    torch.testing.assert_close(fast, slow)


def test_it_is_commutative():
    op = make()
    COMMUTATIVITY.assert_holds(op, normal(50, 4, seed=1), normal(50, 4, seed=2), atol=1e-14)


def test_it_is_not_associative_by_itself():
    op = make()
    a, b, c = (normal(1, 4, seed=seed) for seed in (1, 2, 3))
    assert not torch.allclose(op(op(a, b), c), op(a, op(b, c)))


@pytest.mark.parametrize("shape", [(4,), (1, 4), (0, 4), (3, 2, 4), (2, 0, 4), (2, 3, 5, 4)])
def test_all_axes_but_the_last_are_open(shape):
    op, a, b = make(), normal(*shape, seed=1), normal(*shape, seed=2)
    rows = formula(op, a.reshape(-1, 4), b.reshape(-1, 4))
    torch.testing.assert_close(op(a, b), rows.view(shape))


def test_arguments_need_not_be_contiguous():
    op, a, b = make(), normal(4, 6, seed=1).t(), normal(12, 4, seed=2)[::2]
    torch.testing.assert_close(op(a, b), formula(op, a, b))


@pytest.mark.parametrize("bracketing", BRACKETINGS)
def test_its_fold_is_that_of_the_reference(bracketing):
    op, x, plan = make(), normal(TOTAL, 4), plan_tree(RAGGED, bracketing, seeded())

    def plain(a, b):
        return formula(op, a, b)

    plain.identity = op.identity
    expected = reference_reduce(plain, x, RAGGED, bracketing, plan)
    torch.testing.assert_close(tree_reduce(op, x, plan), expected)


def fold_inputs(table_rows):
    op = make(2)
    if table_rows is None:
        return op, normal(8, 2).requires_grad_(), lambda x: x
    rows = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1])
    return op, normal(table_rows, 2).requires_grad_(), lambda x: TableRows(x, rows)


@pytest.mark.parametrize("bracketing", BRACKETINGS)
@pytest.mark.parametrize("table_rows", [None, 2, 9])
def test_its_gradients_are_those_of_finite_differences(bracketing, table_rows):
    op, x, rows = fold_inputs(table_rows)
    plan = plan_tree([3, 0, 1, 4], bracketing, seeded())
    inputs = (x, *op.parameters())  # perturbed in place, so `op` sees them
    assert gradcheck(lambda x, *_: tuple(tree_fold(op, rows(x), plan)), inputs)


@pytest.mark.parametrize("bracketing", BRACKETINGS)
@pytest.mark.parametrize("table_rows", [None, 2])
def test_its_second_derivatives_are_those_of_finite_differences(bracketing, table_rows):
    op, x, rows = fold_inputs(table_rows)
    plan = plan_tree([3, 0, 1], bracketing, seeded())
    if table_rows is None:
        x = x[:4].detach().requires_grad_()
    else:
        rows = lambda x: TableRows(x, torch.tensor([0, 1, 1, 0]))  # noqa: E731
    inputs = (x, *op.parameters())
    assert gradgradcheck(lambda x, *_: tuple(tree_fold(op, rows(x), plan)), inputs, fast_mode=True)


def test_its_operator_can_be_differentiated_twice():
    op = make(2)
    inputs = [normal(2, 2, seed=seed).requires_grad_() for seed in (1, 2)]
    assert gradcheck(op, inputs)
    assert gradgradcheck(op, inputs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("table_rows", [None, 5])
def test_half_precision_comes_close_to_single_precision(dtype, table_rows):
    op, plan = make(16, torch.float32), plan_tree(RAGGED)
    table = normal(table_rows or TOTAL, 16).to(dtype)
    rows = torch.arange(TOTAL) % len(table)
    folds = []
    for source in (table.clone().requires_grad_(), table.float().requires_grad_()):
        x = source if table_rows is None else TableRows(source, rows)
        out = tree_reduce(op, x, plan)
        assert out.dtype == source.dtype
        gradients = torch.autograd.grad(weighted(out.float()), [source, op.cell.weight_ih])
        folds.append([out, *gradients])
    for half, single in zip(*folds, strict=True):
        scale = single.abs().max().item()
        torch.testing.assert_close(half.float(), single, rtol=0.05, atol=0.03 * scale)


def test_a_module_in_half_precision_answers_in_half_precision():
    op, a, b = make(16, torch.float32), normal(6, 16, seed=1), normal(6, 16, seed=2)
    expected = op(a.float(), b.float())
    out = op.bfloat16()(a.bfloat16(), b.bfloat16())
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("table_rows", [None, 5])
def test_autocast_multiplies_in_half_precision_and_keeps_states_in_single(table_rows):
    op, plan = make(16, torch.float32), plan_tree(RAGGED)
    source = normal(table_rows or TOTAL, 16, dtype=torch.float32).requires_grad_()
    x = source if table_rows is None else TableRows(source, torch.arange(TOTAL) % table_rows)
    single = tree_reduce(op, x, plan)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = tree_reduce(op, x, plan)
    assert half.dtype == torch.float32
    assert not torch.equal(half, single)  # or autocast would have done nothing
    torch.testing.assert_close(half, single, rtol=0.05, atol=0.03)
    first, second = (torch.autograd.grad(weighted(out), source)[0] for out in (half, single))
    assert first.dtype == torch.float32
    torch.testing.assert_close(first, second, rtol=0.05, atol=0.03 * second.abs().max().item())


@pytest.mark.parametrize("table_rows", [None, 5])
def test_a_backward_inside_autocast_multiplies_as_its_forward_did(table_rows):
    op, plan = make(16, torch.float32), plan_tree(RAGGED)
    source = normal(table_rows or TOTAL, 16, dtype=torch.float32).requires_grad_()
    x = source if table_rows is None else TableRows(source, torch.arange(TOTAL) % table_rows)
    loss = weighted(tree_reduce(op, x, plan))
    (outside,) = torch.autograd.grad(loss, source, retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (inside,) = torch.autograd.grad(loss, source)
    assert torch.equal(inside, outside)


def test_autocast_leaves_double_precision_alone():
    op, x, plan = make(), normal(TOTAL, 4), plan_tree(RAGGED)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = tree_reduce(op, x, plan)
    torch.testing.assert_close(out, tree_reduce(op, x, plan), rtol=1e-12, atol=1e-12)


def test_single_precision_is_close_to_double_precision():
    x, plan = normal(TOTAL, 16), plan_tree(RAGGED)
    double = tree_reduce(make(16), x, plan)
    single = tree_reduce(make(16).float(), x.float(), plan)
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-6)


def test_a_table_may_be_read_with_any_integers_that_torch_can_index_with():
    op, plan, table = make(), plan_tree([3, 4]), normal(3, 4).requires_grad_()
    rows = torch.tensor([0, 1, 1, 0, 2, 0, 0])
    found = []
    for dtype in (torch.int32, torch.int64):
        out = tree_reduce(op, TableRows(table, rows.to(dtype)), plan)
        found.append([out, *torch.autograd.grad(weighted(out), table)])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("row", [-1, 3])
@pytest.mark.parametrize("num_rows", [3, 20])
def test_rows_that_a_table_does_not_have_are_refused(dtype, row, num_rows):
    table, rows = normal(3, 4).to(dtype), torch.zeros(num_rows, dtype=torch.int64)
    rows[1] = row
    with pytest.raises(IndexError):
        tree_reduce(make(dtype=dtype), TableRows(table, rows), plan_tree([num_rows]))


@pytest.mark.parametrize(
    ("x", "found"),
    [
        (torch.ones(5, 3), r"shape \(5, 3\)"),
        (torch.ones(5), r"shape \(5,\)"),
        (TableRows(torch.ones(2, 3), torch.zeros(5, dtype=torch.int64)), r"shape \(2, 3\)"),
        ((torch.ones(5, 4), torch.ones(5, 4)), "tuple"),
    ],
)
def test_rows_of_another_kind_are_refused(x, found):
    with pytest.raises(ValueError, match=rf"{found}; expected a tensor \[n, \.\.\., 4\]"):
        tree_reduce(make(), x, plan_tree([5]))


def test_arguments_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"3\); expected a tensor \[n, \.\.\., 4\]"):
        make()(torch.ones(5, 3), torch.ones(5, 3))


def test_arguments_without_channels_are_refused():
    with pytest.raises(ValueError, match=r"0\); expected a tensor \[n, \.\.\., 4\]"):
        make()(torch.ones(5, 0), torch.ones(5, 0))


def test_integers_are_refused():
    with pytest.raises(ValueError, match="int64"):
        tree_reduce(make(), torch.ones(5, 4, dtype=torch.int64), plan_tree([5]))


def test_what_it_returns_may_be_changed_in_place():
    op, a, b = make(), normal(3, 4, seed=1).requires_grad_(), normal(3, 4, seed=2)
    out = op(a, b)
    (expected,) = torch.autograd.grad(weighted(2 * out), a, retain_graph=True)
    out.mul_(2)
    torch.testing.assert_close(torch.autograd.grad(weighted(out), a)[0], expected)


@pytest.mark.parametrize("shape", [(1, 4), (9, 4), (3, 2, 4), (5000, 4)])
def test_without_gradients_few_rows_give_what_many_do(shape):
    op, a, b = make(), normal(*shape, seed=1), normal(*shape, seed=2)
    with torch.no_grad():
        few = op(a, b)
    assert few.shape == a.shape
    torch.testing.assert_close(few, op(a, b).detach(), rtol=1e-12, atol=1e-12)
