import pytest
import torch
from torch.nn.functional import linear
from torch.utils.flop_counter import FlopCounterMode
from trees import normal

from treefold.fold import TableRows, plan_tree, tree_reduce
from treefold.operators import BinaryGRU
from treefold.operators.binary_gru_projection import Dense
from treefold.operators.binary_gru_shared import Shared

OUT, CHANNELS = 18, 3
WEIGHT = normal(OUT, CHANNELS, seed=1)
LEAVES = torch.tensor([1, 0, 1, 1, 3, 0])


@pytest.fixture(autouse=True)
def _without_the_engine(monkeypatch):
    """The other loops are tested here: those that run where C++ cannot be compiled."""
    monkeypatch.setattr("treefold.operators.engine.folding.why_not", lambda: "a test says so")


def projected(rows, weight=WEIGHT):
    """What a projection of `[rows, inner, channels]` should be: `[rows, inner, 6, channels]`."""
    return linear(rows, weight).unflatten(-1, (6, CHANNELS))


def gathered(projections):
    """Projections in the order of the rows they are for."""
    source, where = projections
    return source if where is None else source[where]


def buffer(num_rows, inner=1):
    return torch.full((num_rows, inner, 6, CHANNELS), torch.nan, dtype=torch.float64)


@pytest.mark.parametrize("inner", [1, 2])
def test_rows_are_multiplied_with_all_weights_at_once(inner):
    rows = normal(6, inner, CHANNELS)
    found = Dense(WEIGHT, buffer(8, inner)).project(rows)
    torch.testing.assert_close(gathered(found), projected(rows))


@pytest.mark.parametrize("room", [4, 6, 8])  # emptied between runs, just enough, more than enough
def test_gradients_add_up_over_runs(room):
    rows, grad = normal(6, 2, CHANNELS), normal(6, 2, OUT, seed=3)
    projection, grad_rows = Dense(WEIGHT, buffer(room, 2)), torch.ones_like(rows)
    for places in (slice(0, 4), slice(4, 6)):
        projection.room(places).source.copy_(grad[places].unflatten(-1, (6, CHANNELS)))
        projection.backward(rows[places], grad_rows[places], places)
    projection.finish()
    torch.testing.assert_close(grad_rows, 1 + grad @ WEIGHT)
    torch.testing.assert_close(projection.grad_weight, torch.einsum("nio,nic->oc", grad, rows))


def test_half_precision_rounds_the_factors_and_nothing_else():
    rows = normal(6, 1, CHANNELS)
    found = Dense(WEIGHT.bfloat16(), buffer(6)).project(rows).source
    expected = (rows.bfloat16() @ WEIGHT.bfloat16().t()).unflatten(-1, (6, CHANNELS)).double()
    torch.testing.assert_close(found, expected)
    assert found.dtype == torch.float64


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
    rows = torch.cat([table[LEAVES], nodes])[RUNS[run]]
    shared = Shared(WEIGHT, buffer(4 + 8), table, LEAVES)
    shared.start()
    found = shared.project(rows, RUNS[run])
    torch.testing.assert_close(gathered(found), projected(rows))


@pytest.mark.parametrize("times", [1, 2])  # a run on its own, and two that share the buffer
@pytest.mark.parametrize("run", RUNS)
def test_gradients_of_leaves_are_collected_for_their_table(run, times):
    table = normal(4, 1, CHANNELS).requires_grad_()
    nodes = normal(4, 1, CHANNELS, seed=5).requires_grad_()
    weight = WEIGHT.clone().requires_grad_()
    rows = torch.cat([table[LEAVES], nodes])[RUNS[run]]
    grad = normal(len(rows), 1, 6, CHANNELS, seed=3)
    wanted = [table, nodes, weight]
    expected = torch.autograd.grad(projected(rows, weight), wanted, times * grad)

    shared = Shared(WEIGHT, buffer(4 + 8), table.detach(), LEAVES)
    rows, grad_table = rows.detach(), torch.zeros(4, 1, CHANNELS, dtype=torch.float64)
    grad_rows = torch.zeros_like(rows)
    shared.start_backward()
    for _ in range(times):
        room = shared.room(RUNS[run])
        if room.where is None:
            room.source.copy_(grad)
        else:
            room.source.index_add_(0, room.where, grad)
        shared.backward(rows, grad_rows, RUNS[run])
    shared.finish(grad_table)
    grad_states = torch.zeros(10, 1, CHANNELS, dtype=torch.float64)
    grad_states[RUNS[run]] = grad_rows
    torch.testing.assert_close([grad_table, grad_states[6:], shared.grad_weight], [*expected])
    assert grad_states[:6].abs().max() == 0  # all of it went to the table
    assert grad_table[2].abs().max() == 0  # which nobody uses


@pytest.fixture
def torch_loops(monkeypatch):
    """Multiplications that can be counted."""
    monkeypatch.setattr("treefold.operators.binary_gru_loops.compiled_loops", lambda: None)


def multiplications(function):
    def in_place(shape, left, right, **_):  # the one that torch does not count by itself
        return 2 * left[0] * left[1] * right[1]

    mapping = {torch.ops.aten.addmm_: in_place}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        function()
    return counter.get_total_flops()


@pytest.mark.usefixtures("torch_loops")
def test_each_row_below_a_root_is_multiplied_once_forward_and_twice_backward():
    op, sizes = BinaryGRU(8), [5, 8, 1, 0, 13]
    plan, x = plan_tree(sizes), normal(27, 8, dtype=torch.float32).requires_grad_()
    once = 2 * (2 * plan.num_applications) * 8 * 48  # a multiplication and an addition each
    assert multiplications(lambda: tree_reduce(op, x, plan)) == once
    out = tree_reduce(op, x, plan)
    biases = 2 * (2 * plan.num_applications) * 48  # multiplications with ones
    assert multiplications(lambda: out.sum().backward()) == 2 * once + biases


@pytest.mark.usefixtures("torch_loops")
def test_leaves_of_a_table_cost_as_much_as_the_table_has_rows():
    op, plan, table = BinaryGRU(8), plan_tree([16, 16]), normal(4, 8, dtype=torch.float32)
    x = TableRows(table, torch.arange(32) % 4)
    inner_nodes = plan.num_applications - 2
    assert multiplications(lambda: tree_reduce(op, x, plan)) == 2 * (4 + inner_nodes) * 8 * 48
