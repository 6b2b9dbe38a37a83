import pytest
import torch
from torch import nn
from trees import BRACKETINGS, normal, seeded, weighted

from treefold.fold import TableRows, fold_levels, plan_tree, tree_fold, tree_reduce
from treefold.operators import BinaryGRU
from treefold.operators.engine.operations import why_not

RAGGED = [3, 0, 1, 8, 5, 2, 0, 1, 13]
TOTAL = sum(RAGGED)
CHANNELS = 4

LAYOUTS = {
    "rows": (TOTAL, ()),
    "towers": (TOTAL, (2, 3)),
    "small table": (5, ()),
    "small table of towers": (5, (3,)),
    "large table": (2 * TOTAL, ()),
    "large table of towers": (2 * TOTAL, (3,)),
}


class Formula:
    """Binary-GRU by torch's own cell, with no fold of its own."""

    def __init__(self, op):
        self.cell, self.identity = op.cell, op.identity

    def __call__(self, a, b):
        rows_a, rows_b = (rows.reshape(-1, rows.shape[-1]) for rows in (a, b))
        return ((self.cell(rows_a, rows_b) + self.cell(rows_b, rows_a)) / 2).view(a.shape)


@pytest.fixture
def op():
    torch.manual_seed(0)
    op = BinaryGRU(CHANNELS).double()
    nn.init.normal_(op.identity)
    return op


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture(params=BRACKETINGS)
def plan(request):
    return plan_tree(RAGGED, request.param, seeded())


@pytest.fixture(params=["in C++", "in torch"])
def _backend(request, monkeypatch):
    if request.param == "in torch":
        monkeypatch.setattr("treefold.operators.engine.folding.can_compute", lambda *_: False)
    elif why_not() is not None:
        pytest.skip(f"nothing is compiled: {why_not()}")


def source_and_rows(layout, dtype=torch.float64):
    """A leaf tensor to be differentiated, and the rows to fold; the last of a table go unused."""
    num_rows, inner = LAYOUTS[layout]
    source = normal(num_rows, *inner, CHANNELS, seed=3).to(dtype).requires_grad_()
    if "table" not in layout:
        return source, source
    return source, TableRows(source, torch.randint(num_rows - 2, (TOTAL,), generator=seeded(1)))


def results(fold, source, op, which=("groups", "nodes")):
    """The outputs, and the gradients by the source, the weights and the identity."""
    loss = weighted(*(getattr(fold, name) for name in which))
    gradients = torch.autograd.grad(loss, [source, *op.parameters()], materialize_grads=True)
    return [fold.groups, fold.nodes, *gradients]


def assert_folds_agree(op, layout, plan, **options):
    source, x = source_and_rows(layout)
    fast = results(tree_fold(op, x, plan), source, op, **options)
    slow = results(fold_levels(Formula(op), x, plan), source, op, **options)
    torch.testing.assert_close(fast, slow)


@pytest.mark.usefixtures("_backend")
def test_values_and_gradients_are_those_of_the_plain_fold(op, layout, plan):
    assert_folds_agree(op, layout, plan)


def test_groups_alone_are_those_of_the_fold_with_its_nodes(op, layout, plan):
    found = []
    for reduce in (lambda x: tree_reduce(op, x, plan), lambda x: tree_fold(op, x, plan).groups):
        source, x = source_and_rows(layout)
        groups = reduce(x)
        for _ in range(3):  # memory that is used again must not be ours
            reduce(source_and_rows(layout)[1])
        gradients = torch.autograd.grad(weighted(groups), [source, *op.parameters()])
        found.append([groups, *gradients])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


@pytest.mark.usefixtures("_backend")
def test_single_precision_agrees_with_double(op, layout, plan):
    source, x = source_and_rows(layout)
    expected = results(tree_fold(op, x, plan), source, op)
    source, x = source_and_rows(layout, torch.float32)
    op = op.float()
    found = results(tree_fold(op, x, plan), source, op)
    torch.testing.assert_close(found, [tensor.float() for tensor in expected], atol=1e-5, rtol=1e-4)


@pytest.mark.usefixtures("_backend")
@pytest.mark.parametrize("chunk", [20, 1 << 17])
def test_half_precision_is_as_close_as_rounding_allows(op, layout, plan, chunk, monkeypatch):
    monkeypatch.setattr("treefold.operators.engine.folding.CHUNK", chunk)
    source, x = source_and_rows(layout)
    expected = results(tree_fold(op, x, plan), source, op)
    source, x = source_and_rows(layout, torch.float32)
    op = op.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fold = tree_fold(op, x, plan)
    found = results(fold, source, op)
    for half, exact in zip(found, expected, strict=True):
        assert (half - exact).norm() <= 0.02 * exact.norm()


@pytest.mark.parametrize("sizes", [[], [0, 0], [1, 0, 1]])
def test_half_precision_takes_groups_of_which_nothing_meets(op, sizes):
    op, x = op.float(), torch.ones(sum(sizes), CHANNELS, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = tree_reduce(op, x, plan_tree(sizes))
    expected = [torch.ones(CHANNELS) if size else op.identity for size in sizes]
    assert out.tolist() == [row.tolist() for row in expected]
    gradients = torch.autograd.grad(out.sum(), [x, *op.parameters()], materialize_grads=True)
    assert gradients[0].tolist() == torch.ones_like(x).tolist()
    assert all(not gradient.any() for gradient in gradients[2:])


@pytest.mark.parametrize("chunk", [1, 20, 50])
def test_it_makes_no_difference_where_runs_are_cut(op, layout, plan, chunk, monkeypatch):
    monkeypatch.setattr("treefold.operators.engine.folding.CHUNK", chunk)
    assert_folds_agree(op, layout, plan)


@pytest.mark.parametrize("which", ["groups", "nodes"])
def test_gradients_may_arrive_at_one_output_alone(op, layout, plan, which):
    assert_folds_agree(op, layout, plan, which=[which])


@pytest.mark.parametrize("frozen", ["source", "weights", "identity"])
def test_what_wants_no_gradient_does_not_disturb_the_others(op, layout, plan, frozen):
    source, x = source_and_rows(layout)
    wanted = {"source": [source], "weights": [*op.cell.parameters()], "identity": [op.identity]}
    for tensor in wanted.pop(frozen):
        tensor.requires_grad_(False)
    tensors = [tensor for kind in wanted.values() for tensor in kind]
    fast, slow = (
        torch.autograd.grad(weighted(*fold), tensors)
        for fold in (tree_fold(op, x, plan), fold_levels(Formula(op), x, plan))
    )
    torch.testing.assert_close(fast, slow)


def test_without_gradients_the_values_are_the_same(op, layout, plan):
    _, x = source_and_rows(layout)
    with torch.no_grad():
        quiet = tree_fold(op, x, plan)
    loud = tree_fold(op, x, plan)
    assert not quiet.groups.requires_grad
    rounding = 0 if why_not() is None else 1e-12  # torch adds biases in two ways
    torch.testing.assert_close(quiet, loud, rtol=rounding, atol=rounding)


def test_gradients_can_be_taken_twice(op, layout, plan):
    source, x = source_and_rows(layout)
    loss = weighted(*tree_fold(op, x, plan))
    wanted = [source, *op.parameters()]
    first = torch.autograd.grad(loss, wanted, retain_graph=True)
    second = torch.autograd.grad(loss, wanted)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_second_derivatives_are_those_of_the_plain_fold(op, layout, plan):
    source, x = source_and_rows(layout)
    wanted = [source, *op.parameters()]
    found = []
    for fold in (tree_fold(op, x, plan), fold_levels(Formula(op), x, plan)):
        gradients = torch.autograd.grad(weighted(*fold), wanted, create_graph=True)
        loss = weighted(*(g for g in gradients if g.requires_grad))
        found.append(torch.autograd.grad(loss, [source, *op.cell.parameters()]))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("sizes", [[], [0, 0], [1, 1, 1], [1, 0]])
@pytest.mark.parametrize("table_rows", [None, 1, 5])
def test_where_nobody_meets_every_gradient_is_there(op, sizes, table_rows):
    plan, total = plan_tree(sizes), sum(sizes)
    source = normal(total if table_rows is None else table_rows, CHANNELS).requires_grad_()
    rows = torch.zeros(total, dtype=torch.int64)
    x = source if table_rows is None else TableRows(source, rows)
    fold = tree_fold(op, x, plan)
    assert fold.nodes.shape == (0, CHANNELS)
    weighted(*fold).backward()
    assert all(parameter.grad.abs().max() == 0 for parameter in op.cell.parameters())
    groups, _, grad_source, grad_identity, *_ = results(
        fold_levels(Formula(op), x, plan), source, op
    )
    torch.testing.assert_close(
        [fold.groups, source.grad, op.identity.grad], [groups, grad_source, grad_identity]
    )


@pytest.mark.parametrize("layout", ["small table of towers", "large table of towers", "towers"])
@pytest.mark.parametrize("kind", ["transposed", "expanded", "strided"])
def test_rows_and_tables_need_not_be_contiguous(op, layout, plan, kind):
    num_rows, (*_, towers) = LAYOUTS[layout]
    source = {
        "transposed": lambda: normal(towers, num_rows, CHANNELS).transpose(0, 1),
        "expanded": lambda: normal(num_rows, 1, CHANNELS).expand(num_rows, towers, CHANNELS),
        "strided": lambda: normal(num_rows, towers, 2 * CHANNELS)[..., ::2],
    }[kind]()
    source = source.detach().requires_grad_()
    assert not source.is_contiguous()
    rows = torch.arange(TOTAL) % num_rows
    x = source if layout == "towers" else TableRows(source, rows)
    fast = results(tree_fold(op, x, plan), source, op)
    slow = results(fold_levels(Formula(op), x, plan), source, op)
    torch.testing.assert_close(fast, slow)


@pytest.mark.parametrize("chunk", [20, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_a_gradient_to_come_the_answer_is_the_same(
    op, layout, plan, chunk, dtype, monkeypatch
):
    monkeypatch.setattr("treefold.operators.engine.folding.CHUNK", chunk)
    _, x = source_and_rows(layout, dtype)
    op = op.to(dtype)
    with torch.no_grad():
        found = tree_fold(op, x, plan)
    assert not found.groups.requires_grad
    torch.testing.assert_close(found, tree_fold(op, x, plan), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("in_halves", [False, True])
@pytest.mark.parametrize("repeats", [False, True])
def test_several_threads_make_a_difference_in_rounding_only(repeats, in_halves):
    """Wide enough that runs are shared by two; torch's number of threads stays as it is."""
    torch.manual_seed(0)
    op, plan = BinaryGRU(60), plan_tree(torch.arange(1, 60), "random", seeded())
    source = torch.randn(100 if repeats else plan.num_rows, 60, requires_grad=True)
    rows = torch.randint(100, (plan.num_rows,), generator=seeded())
    x = TableRows(source, rows) if repeats else source
    before, found = torch.get_num_threads(), []
    for num_threads in (1, 2):
        torch.set_num_threads(num_threads)
        try:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=in_halves):
                fold = tree_fold(op, x, plan)
            found.append(results(fold, source, op))
            assert torch.get_num_threads() == num_threads
        finally:
            torch.set_num_threads(before)
    # Biases get sums over 3,400 rows, in another order, and sums are rounded to halves.
    atol = 3e-3 if in_halves else 3e-4
    torch.testing.assert_close(found[0], found[1], atol=atol, rtol=1e-4)


def test_repeating_a_fold_repeats_every_bit(op, layout, plan):
    source, x = source_and_rows(layout)
    first, second = (results(tree_fold(op, x, plan), source, op) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
