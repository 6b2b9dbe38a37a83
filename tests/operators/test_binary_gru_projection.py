import pytest
import torch
from torch.nn.functional import linear
from torch.utils.flop_counter import FlopCounterMode
from trees import normal

from treefold.operators import BinaryGRU
from treefold.operators.binary_gru_projection import Dense, Run, Shared
from treefold.reduction import TableRows, plan_tree, tree_reduce

OUT, CHANNELS = 18, 3
WEIGHT, BIAS = normal(OUT, CHANNELS, seed=1), normal(OUT, seed=2)
LEAVES = torch.tensor([1, 0, 1, 1, 3, 0])


def projected(rows, weight=WEIGHT):
    """What a projection of `[rows, inner, channels]` should be: `[rows, inner, 6, channels]`."""
    return linear(rows, weight, BIAS).unflatten(-1, (6, CHANNELS))


def doubled(projections):
    """As the gates want them: both that are called new are doubled."""
    return projections * torch.tensor([1.0, 1, 2, 1, 1, 2]).view(-1, 1)


def dense(max_rows=8, inner=1, precision=torch.float64):
    return Dense(WEIGHT, BIAS, precision, max_rows, inner)


@pytest.mark.parametrize("inner", [1, 2])
def test_rows_are_multiplied_with_all_weights_at_once(inner):
    rows = normal(6, inner, CHANNELS)
    torch.testing.assert_close(dense(inner=inner).project(rows), doubled(projected(rows)))


def test_gradients_add_up_over_runs():
    rows, grad = normal(6, 2, CHANNELS), normal(6, 2, OUT, seed=3)
    projection, grad_rows = dense(inner=2), torch.ones_like(rows)
    for run in (slice(0, 4), slice(4, 6)):
        projection.backward(grad[run].unflatten(-1, (6, CHANNELS)), rows[run], grad_rows[run])
    torch.testing.assert_close(grad_rows, 1 + grad @ WEIGHT)
    torch.testing.assert_close(projection.grad_weight, torch.einsum("nio,nic->oc", grad, rows))
    torch.testing.assert_close(projection.grad_bias, grad.sum((0, 1)))


def test_half_precision_rounds_the_factors_and_nothing_else():
    rows = normal(6, 1, CHANNELS)
    projection = dense(precision=torch.bfloat16)
    expected = (rows.bfloat16() @ WEIGHT.bfloat16().t()).unflatten(-1, (6, CHANNELS))
    expected = doubled(expected.double() + BIAS.view(6, CHANNELS))
    torch.testing.assert_close(projection.project(rows), expected)
    assert projection.project(rows).dtype == torch.float64


RUNS = {
    "leaves in a row": slice(0, 6),
    "nodes in a row": slice(6, 10),
    "leaves and nodes": torch.tensor([7, 2, 0, 9, 4, 6]),
    "leaves only": torch.tensor([5, 3]),
    "nodes only": torch.tensor([8, 6]),
}


@pytest.mark.parametrize("run", RUNS)
def test_leaves_of_a_table_are_projected_like_the_rows_they_stand_for(run):
    table, nodes = normal(4, 1, CHANNELS), normal(4, 1, CHANNELS, seed=5)
    states = torch.cat([table[LEAVES], nodes])
    shared = Shared(dense(), table, LEAVES)
    rows = states[RUNS[run]]
    found = shared.project(rows, Run(slice(0, len(rows) // 2), RUNS[run]))
    torch.testing.assert_close(found, doubled(projected(rows)))


@pytest.mark.parametrize("run", RUNS)
def test_gradients_of_leaves_are_collected_for_their_table(run):
    table = normal(4, 1, CHANNELS).requires_grad_()
    nodes = normal(4, 1, CHANNELS, seed=5).requires_grad_()
    weight = WEIGHT.clone().requires_grad_()
    rows = torch.cat([table[LEAVES], nodes])[RUNS[run]]
    grad = normal(len(rows), 1, 6, CHANNELS, seed=3)
    wanted = [table, nodes, weight]
    expected = torch.autograd.grad(projected(rows, weight), wanted, grad)

    shared, rows = Shared(dense(), table.detach(), LEAVES), rows.detach()
    grad_rows, grad_table = torch.zeros_like(rows), torch.zeros(4, 1, CHANNELS).double()
    shared.backward(grad, rows, grad_rows, Run(slice(0, len(rows) // 2), RUNS[run]))
    shared.finish(grad_table)
    grad_states = torch.zeros(10, 1, CHANNELS).double()
    grad_states[RUNS[run]] = grad_rows
    torch.testing.assert_close([grad_table, grad_states[6:], shared.dense.grad_weight], [*expected])
    assert grad_states[:6].abs().max() == 0  # all of it went to the table
    assert grad_table[2].abs().max() == 0  # which nobody uses


def multiplications(function):
    def in_place(shape, left, right, **_):  # the one that torch does not count by itself
        return 2 * left[0] * left[1] * right[1]

    mapping = {torch.ops.aten.addmm_: in_place}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        function()
    return counter.get_total_flops()


def test_each_row_below_a_root_is_multiplied_once_forward_and_twice_backward():
    op, sizes = BinaryGRU(8), [5, 8, 1, 0, 13]
    plan, x = plan_tree(sizes), normal(27, 8, dtype=torch.float32).requires_grad_()
    once = 2 * (2 * plan.num_applications) * 8 * 48  # a multiplication and an addition each
    assert multiplications(lambda: tree_reduce(op, x, plan)) == once
    out = tree_reduce(op, x, plan)
    biases = 2 * (2 * plan.num_applications) * 48  # their gradients are sums over rows
    assert multiplications(lambda: out.sum().backward()) == 2 * once + biases


def test_leaves_of_a_table_cost_as_much_as_the_table_has_rows():
    op, plan, table = BinaryGRU(8), plan_tree([16, 16]), normal(4, 8, dtype=torch.float32)
    x = TableRows(table, torch.arange(32) % 4)
    inner_nodes = plan.num_applications - 2
    assert multiplications(lambda: tree_reduce(op, x, plan)) == 2 * (4 + inner_nodes) * 8 * 48
