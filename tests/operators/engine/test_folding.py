"""Compiled folds are operations of torch in every respect."""

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from trees import BRACKETINGS, normal, seeded, weighted

from treefold.fold import TableRows, fold_levels, plan_tree, tree_fold
from treefold.operators import BinaryGRU, GatedSelection, release
from treefold.operators.engine import folding
from treefold.operators.engine.operations import can_compute, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason="folds run in plain torch here")

CHANNELS = 4
RAGGED = [3, 0, 1, 8, 5, 2, 0, 1, 13]
TOTAL = sum(RAGGED)
NUM_NODES = TOTAL - sum(size > 0 for size in RAGGED)
OPTIONS = [{}, {"selects": False}, {"writes": False}, {"stretch": 0.1}, {"hidden_channels": 7}]
LAYOUTS = {
    "rows": (TOTAL, ()),
    "towers": (TOTAL, (2, 3)),
    "small table": (5, ()),
    "small table of towers": (5, (3,)),
    "large table": (2 * TOTAL, ()),
}


def make(options, dtype=torch.float64):
    torch.manual_seed(0)
    op = GatedSelection(CHANNELS, **options).to(dtype)
    nn.init.normal_(op.identity)
    return op


def source_and_rows(layout, dtype=torch.float64):
    num_rows, inner = LAYOUTS[layout]
    source = normal(num_rows, *inner, CHANNELS, seed=3).to(dtype).requires_grad_()
    if "table" not in layout:
        return source, source
    return source, TableRows(source, torch.randint(num_rows, (TOTAL,), generator=seeded(1)))


def results(fold, source, op, which=("groups", "nodes")):
    loss = weighted(*(getattr(fold, name) for name in which))
    gradients = torch.autograd.grad(loss, [source, *op.parameters()], materialize_grads=True)
    return [fold.groups, fold.nodes, *gradients]


def assert_agrees(op, layout, plan, **options):
    source, x = source_and_rows(layout)
    fast, slow = tree_fold(op, x, plan), fold_levels(op, x, plan)
    found, expected = (results(fold, source, op, **options) for fold in (fast, slow))
    torch.testing.assert_close(found, expected)


@pytest.fixture(params=OPTIONS, ids=str)
def op(request):
    return make(request.param)


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture(params=BRACKETINGS)
def plan(request):
    return plan_tree(RAGGED, request.param, seeded())


@pytest.mark.parametrize("chunk", [50, folding.CHUNK])
def test_values_and_gradients_are_those_of_the_plain_fold(op, layout, plan, chunk, monkeypatch):
    monkeypatch.setattr(folding, "CHUNK", chunk)
    assert_agrees(op, layout, plan)


@pytest.mark.parametrize("which", ["groups", "nodes"])
def test_gradients_may_arrive_at_one_output_alone(op, plan, which):
    assert_agrees(op, "rows", plan, which=[which])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("channels", [1, 16, 33])
def test_single_precision_agrees_with_double(options, channels):
    torch.manual_seed(0)
    op, plan, found = GatedSelection(channels, **options).double(), plan_tree(RAGGED), []
    for dtype in (torch.float64, torch.float32):
        source = normal(TOTAL, channels).to(dtype).requires_grad_()
        op = op.to(dtype)
        found.append([each.double() for each in results(tree_fold(op, source, plan), source, op)])
    torch.testing.assert_close(found[1], found[0], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("sizes", [[], [0, 0], [1, 1, 1], [1, 0]])
def test_where_nobody_meets_every_gradient_is_there(op, sizes):
    source = normal(sum(sizes), CHANNELS).requires_grad_()
    plan = plan_tree(sizes)
    fast, slow = tree_fold(op, source, plan), fold_levels(op, source, plan)
    assert fast.nodes.shape == (0, CHANNELS)
    torch.testing.assert_close(results(fast, source, op), results(slow, source, op))


def test_without_gradients_the_values_are_the_same(op, layout, plan):
    _, x = source_and_rows(layout)
    with torch.no_grad():
        quiet = tree_fold(op, x, plan)
    loud = tree_fold(op, x, plan)
    assert not quiet.groups.requires_grad
    assert torch.equal(quiet.groups, loud.groups)
    assert torch.equal(quiet.nodes, loud.nodes)


def test_repeating_a_fold_repeats_every_bit(op, layout, plan):
    source, x = source_and_rows(layout, torch.float32)
    op = op.float()
    first, second = (results(tree_fold(op, x, plan), source, op) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("repeats", [False, True])
def test_several_threads_make_a_difference_in_rounding_only(repeats):
    torch.manual_seed(0)
    op, plan = GatedSelection(60), plan_tree(torch.arange(1, 60), "random", seeded())
    source = torch.randn(100 if repeats else plan.num_rows, 60, requires_grad=True)
    rows = torch.randint(100, (plan.num_rows,), generator=seeded())
    x = TableRows(source, rows) if repeats else source
    found = []
    for num_threads in (1, 2):
        torch.set_num_threads(num_threads)
        found.append(results(tree_fold(op, x, plan), source, op))
        assert torch.get_num_threads() == num_threads
    torch.testing.assert_close(found[0], found[1], atol=3e-4, rtol=1e-4)


def arguments(op, source, plan, *, saves=True, chunk=20):
    plan_tensors = (plan.leaves, *plan.tables)
    return (
        *(source, op.identity, *op._parameters_of_fold(), *plan_tensors),
        *(op.stretch, False, False, chunk, saves),
    )


def test_torch_finds_nothing_wrong_with_the_operation(op):
    source, plan = normal(TOTAL, CHANNELS).requires_grad_(), plan_tree(RAGGED)
    torch.library.opcheck(torch.ops.treefold.gated_selection.default, arguments(op, source, plan))


def test_torch_finds_nothing_wrong_with_the_operation_of_its_gradient(op):
    source, plan = normal(TOTAL, CHANNELS), plan_tree(RAGGED)
    given = arguments(op, source, plan)
    with torch.no_grad():
        groups, states, saved = torch.ops.treefold.gated_selection(*given)
        torch.library.opcheck(
            torch.ops.treefold.gated_selection_backward.default,
            (normal(*groups.shape), None, *given[:-5], states, saved, *given[-5:-1]),
            test_utils=["test_schema", "test_faketensor"],
        )


def test_torch_finds_nothing_wrong_with_that_of_binary_gru():
    torch.manual_seed(0)
    op, plan = BinaryGRU(CHANNELS).double(), plan_tree(RAGGED)
    source = normal(TOTAL, CHANNELS).requires_grad_()
    plan_tensors = (plan.leaves, *plan.tables)
    tensors = (source, op.identity, *op.cell.parameters(), *plan_tensors)
    torch.library.opcheck(torch.ops.treefold.binary_gru.default, (*tensors, False, False, 20, True))
    with torch.no_grad():
        groups, states, saved = torch.ops.treefold.binary_gru(*tensors, False, False, 20, True)
        torch.library.opcheck(
            torch.ops.treefold.binary_gru_backward.default,
            (normal(*groups.shape), None, *tensors, states, saved, False, False, 20),
            test_utils=["test_schema", "test_faketensor"],
        )


@pytest.mark.parametrize("options", OPTIONS[:4], ids=str)
@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_its_gradients_are_those_of_finite_differences(options, check):
    torch.manual_seed(0)
    op, plan = GatedSelection(2, **options).double(), plan_tree([3, 0])
    source = normal(3, 2).requires_grad_()
    inputs = (source, *op.parameters())
    assert check(lambda *_: tree_fold(op, source, plan).groups, inputs, fast_mode=True)


def test_a_batch_of_folds_is_one_fold_of_wider_rows(op):
    sources, plan = normal(3, TOTAL, CHANNELS), plan_tree(RAGGED)

    def groups(source):
        given = arguments(op, source, plan, saves=False)
        return torch.ops.treefold.gated_selection(*given)[0]

    with torch.no_grad():
        expected = torch.stack([groups(source) for source in sources])
        torch.testing.assert_close(torch.vmap(groups)(sources), expected)
        torch.testing.assert_close(
            torch.vmap(groups, 2, 1)(sources.movedim(0, 2)), expected.movedim(0, 1)
        )


def test_other_batches_are_folded_one_by_one(op):
    source, plan = normal(TOTAL, CHANNELS), plan_tree(RAGGED)
    identities = normal(3, CHANNELS)

    def groups(identity):
        given = arguments(op, source, plan, saves=False)
        return torch.ops.treefold.gated_selection(given[0], identity, *given[2:])[0]

    with torch.no_grad():
        expected = torch.stack([groups(identity) for identity in identities])
        torch.testing.assert_close(torch.vmap(groups)(identities), expected)


def test_gradients_can_be_batched(op):
    source, plan = normal(TOTAL, CHANNELS).requires_grad_(), plan_tree(RAGGED)
    groups = tree_fold(op, source, plan).groups
    directions = normal(3, *groups.shape)
    (found,) = torch.autograd.grad(
        groups, source, directions, is_grads_batched=True, retain_graph=True
    )
    expected = [
        torch.autograd.grad(groups, source, each, retain_graph=True)[0] for each in directions
    ]
    torch.testing.assert_close(found, torch.stack(expected))


def test_it_is_used_for_plain_tensors_in_full_precision_on_cpus():
    op, x = make({}, torch.float32), torch.ones(2, CHANNELS)
    assert can_compute(x, op.identity, None)
    assert not can_compute(x.half(), op.identity)
    assert not can_compute(x.double(), op.identity)
    assert not can_compute(x.to("meta"), op.identity)
    with forward_ad.dual_level():
        assert not can_compute(x, op.identity)
    assert torch.vmap(lambda row: row + can_compute(x, op.identity))(x).tolist() == x.tolist()


def test_forward_derivatives_go_through_plain_torch(op):
    source, plan, direction = normal(TOTAL, CHANNELS), plan_tree(RAGGED), normal(TOTAL, CHANNELS)
    with forward_ad.dual_level():
        dual = tree_fold(op, forward_ad.make_dual(source, direction), plan).groups
        found = forward_ad.unpack_dual(dual).tangent
    _, expected = torch.func.jvp(lambda x: tree_fold(op, x, plan).groups, (source,), (direction,))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("position", "wrong", "words"),
    [
        (7, torch.tensor([TOTAL]), f"leaves name row {TOTAL}; expected 0 to {TOTAL - 1}"),
        (9, torch.zeros(NUM_NODES, 3, dtype=torch.int64), "expected two columns"),
        (1, torch.zeros(CHANNELS + 1, dtype=torch.float64), "identity is Double of shape"),
        (0, torch.zeros(TOTAL, CHANNELS), "expected Float of shape"),
    ],
)
def test_arguments_that_do_not_fit_are_errors(position, wrong, words):
    given = list(arguments(make({}), normal(TOTAL, CHANNELS), plan_tree(RAGGED)))
    given[position] = wrong
    with pytest.raises((RuntimeError, IndexError), match=words):
        torch.ops.treefold.gated_selection(*given)


def test_a_gradient_needs_what_the_fold_saves():
    op, source, plan = make({}), normal(TOTAL, CHANNELS).requires_grad_(), plan_tree(RAGGED)
    groups, *_ = torch.ops.treefold.gated_selection(*arguments(op, source, plan, saves=False))
    with pytest.raises(RuntimeError, match="fold with `saves`"):
        groups.sum().backward()


def test_memory_that_is_used_again_is_nobodys():
    op, source, plan = make({}), normal(TOTAL, CHANNELS).requires_grad_(), plan_tree(RAGGED)
    first = tree_fold(op, source, plan)
    kept = [part.clone() for part in first]
    for _ in range(3):
        tree_fold(
            op, normal(TOTAL, CHANNELS, seed=9).requires_grad_(), plan
        ).groups.sum().backward()
    assert all(torch.equal(*pair) for pair in zip(first, kept, strict=True))
    release()
    assert all(torch.equal(*pair) for pair in zip(first, kept, strict=True))
