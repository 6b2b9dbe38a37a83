import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence
from trees import normal, some, weighted

from treefold.algebra import Mean, State, map_state, take, tensors_of
from treefold.fold import (
    Groups,
    PackedOrder,
    TableRows,
    chain_fold,
    chain_reduce,
    fold_steps,
)
from treefold.fold.reference import fold_chain
from treefold.operators import CELLS

INDEX = torch.tensor([4, 1, 4, 0, 1, 4, 4, 2, 1, 0, 4])  # group 3 is empty, and so is group 5
GROUPS = Groups.from_index(INDEX, 6)
SIZES = st.lists(st.integers(0, 6), max_size=8)


def digits(state, row):
    """The last state spells the rows in order."""
    return (10 * state + row) % 1_000_003


def make_cell(name, channels=3):
    torch.manual_seed(0)
    cell = CELLS[name](channels).double()
    for initial in tensors_of(cell.initial):
        torch.nn.init.normal_(initial)
    return cell


def rows_by_group(groups: Groups) -> list[list[int]]:
    return [rows.tolist() for rows in groups.order.split(groups.sizes.tolist())]


def reference_reduce(cell, x: torch.Tensor, groups: Groups, initial: State) -> State:
    """Each group by itself, one row at a time."""
    start = map_state(lambda part: part.expand(1, *x.shape[1:]), initial)
    ends = [
        fold_chain(cell, start, [x[row : row + 1] for row in rows])
        for rows in rows_by_group(groups)
    ]
    return map_state(lambda *parts: torch.cat(parts), *ends)


def assert_states_close(first, second):
    torch.testing.assert_close(tensors_of(first), tensors_of(second))


@some
@given(st.lists(st.integers(0, 5), max_size=25))
def test_functions_run_along_each_group_in_order(index):
    groups = Groups.from_index(torch.tensor(index, dtype=torch.int64), 6)
    x = torch.arange(1, len(index) + 1)
    out = chain_reduce(digits, x, groups, torch.tensor(7))
    rows = rows_by_group(groups)
    assert out.tolist() == [fold_chain(digits, 7, [row + 1 for row in group]) for group in rows]


def test_a_state_may_be_a_tuple():
    mean = Mean()

    def step(state, row):
        return mean(state, mean.encode(row))

    x = normal(11)
    total, count = chain_reduce(step, x, GROUPS, (torch.tensor(0.0), torch.tensor(0.0)))
    assert count.tolist() == GROUPS.sizes.tolist()
    torch.testing.assert_close(total, torch.zeros(6).double().index_add(0, INDEX, x))


def test_a_state_may_be_wider_than_a_row():
    def step(state, row):  # the sums of powers of the rows
        return state + row.unsqueeze(1) ** torch.arange(4)

    x = torch.arange(1, 6)
    out = chain_reduce(step, x, Groups.from_sizes([2, 0, 3]), torch.zeros(4, dtype=torch.int64))
    assert out.tolist() == [[2, 3, 5, 9], [0, 0, 0, 0], [3, 12, 50, 216]]


def test_a_state_may_have_more_axes_than_a_row():
    def step(state, row):  # the outer products of [2, 2] rows with a vector
        return state + row.unsqueeze(-1) * torch.arange(3)

    x = torch.arange(20).view(5, 2, 2)
    initial = torch.zeros(2, 2, 3, dtype=torch.int64)
    out = chain_reduce(step, x, Groups.from_sizes([2, 3]), initial)
    sums = torch.stack([x[:2].sum(0), x[2:].sum(0)])
    assert torch.equal(out, sums.unsqueeze(-1) * torch.arange(3))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("feature", [(3,), (2, 3), (2, 4, 3)])
def test_cells_end_in_the_state_of_the_reference(name, feature):
    cell, x = make_cell(name), normal(11, *feature)
    out = chain_reduce(cell, x, GROUPS, cell.initial)
    assert_states_close(out, reference_reduce(cell, x, GROUPS, cell.initial))
    assert_states_close(
        map_state(lambda part: part[3], out),
        map_state(lambda part: part.expand(feature), cell.initial),
    )


@pytest.mark.parametrize("name", CELLS)
@some
@given(SIZES)
def test_any_sizes_end_in_the_state_of_the_reference(name, sizes):
    cell, groups = make_cell(name), Groups.from_sizes(sizes)
    x = normal(sum(sizes), 3)
    out = chain_reduce(cell, x, groups, cell.initial)
    if sizes:
        assert_states_close(out, reference_reduce(cell, x, groups, cell.initial))
    else:
        assert all(part.shape == (0, 3) for part in tensors_of(out))


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("feature", [(3,), (2, 3)])
def test_gradients_are_those_of_the_reference(name, feature):
    cell, x = make_cell(name), normal(11, *feature).requires_grad_()
    wanted = [x, *cell.parameters()]
    fast, slow = (
        torch.autograd.grad(weighted(*tensors_of(fold(cell, x, GROUPS, cell.initial))), wanted)
        for fold in (chain_reduce, reference_reduce)
    )
    torch.testing.assert_close(fast, slow)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("sizes", [[], [0, 0]])
def test_parameters_get_zero_gradients_where_there_are_no_rows(name, sizes):
    cell = make_cell(name)
    x = torch.zeros(0, 3, dtype=torch.float64)
    out = chain_reduce(cell, x, Groups.from_sizes(sizes), cell.initial)
    cell.output(out).sum().backward()
    assert all(weight.grad.abs().max() == 0 for weight in cell.rnn.parameters())
    assert cell.initial_hidden.grad.tolist() == [len(sizes)] * 3


@pytest.mark.parametrize("name", CELLS)
def test_a_group_ends_alike_whatever_else_is_in_the_batch(name):
    cell, mine = make_cell(name), normal(4, 3)
    alone = chain_reduce(cell, mine, Groups.from_sizes([4]), cell.initial)
    for sizes in ([9, 4], [0, 4], [2, 4], [4, 4]):
        x = torch.cat([normal(sizes[0], 3, seed=5), mine])
        together = chain_reduce(cell, x, Groups.from_sizes(sizes), cell.initial)
        assert_states_close(map_state(lambda part: part[1:], together), alone)


@pytest.mark.parametrize("name", CELLS)
def test_the_order_of_the_rows_is_the_order_of_the_groups(name):
    cell, x = make_cell(name), normal(11, 3)
    forth = chain_reduce(cell, x, GROUPS, cell.initial)
    backwards = Groups.from_index(INDEX.flip(0), 6)
    back = chain_reduce(cell, x.flip(0), backwards, cell.initial)
    assert not torch.allclose(cell.output(forth)[0], cell.output(back)[0])
    shuffled = GROUPS.shuffled(torch.Generator().manual_seed(1))
    out = chain_reduce(cell, x, shuffled, cell.initial)
    assert_states_close(out, reference_reduce(cell, x, shuffled, cell.initial))


@pytest.mark.parametrize("name", CELLS)
def test_rows_outside_of_a_mask_are_left_alone(name):
    cell, padded = make_cell(name), normal(2, 4, 3)
    mask = torch.tensor([[True, True, False, False], [True, False, True, True]])
    padded[~mask] = torch.nan
    out = cell.output(chain_reduce(cell, padded.view(8, 3), Groups.from_mask(mask), cell.initial))
    for group in range(2):
        rows = padded[group][mask[group]]
        alone = chain_reduce(cell, rows, Groups.from_sizes([len(rows)]), cell.initial)
        torch.testing.assert_close(out[group], cell.output(alone)[0])


@pytest.mark.parametrize("name", CELLS)
def test_rows_of_a_table_fold_like_the_gathered_rows(name):
    cell, table = make_cell(name), normal(4, 3)
    rows = torch.arange(11) % 3
    shared = chain_reduce(cell, TableRows(table, rows), GROUPS, cell.initial)
    assert_states_close(shared, chain_reduce(cell, table[rows], GROUPS, cell.initial))


@pytest.mark.parametrize("name", CELLS)
def test_rows_need_not_be_contiguous(name):
    cell, x = make_cell(name), normal(3, 22).t()[::2]
    out = chain_reduce(cell, x, GROUPS, cell.initial)
    assert_states_close(out, chain_reduce(cell, x.contiguous(), GROUPS, cell.initial))


@pytest.mark.parametrize("num_rows", [10, 12])
def test_a_wrong_number_of_rows_is_refused(num_rows):
    message = f"there are {num_rows} rows, but the groups are for 11"
    with pytest.raises(ValueError, match=message):
        chain_reduce(digits, torch.arange(num_rows), GROUPS, torch.tensor(0))


@pytest.mark.parametrize("name", [*CELLS, "digits"])
def test_kept_states_are_those_after_every_row(name):
    if name == "digits":
        cell, initial, x = digits, torch.tensor(7), torch.arange(11)
    else:
        cell, x = make_cell(name), normal(11, 2, 3)
        initial = cell.initial
    packed = PackedOrder.of(GROUPS)
    chain = chain_fold(cell, x, GROUPS, initial, keep_states=True)
    assert_states_close(chain.groups, chain_reduce(cell, x, GROUPS, initial))
    for rows in rows_by_group(GROUPS):
        for end, row in enumerate(rows):
            until_here = Groups.from_sizes([end + 1])
            expected = reference_reduce(cell, x[rows[: end + 1]], until_here, initial)
            place = packed.rows.tolist().index(row)
            assert_states_close(take(chain.states, slice(place, place + 1)), expected)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("keep_states", [True, False])
def test_torchs_own_loop_does_what_the_plain_steps_do(name, keep_states):
    cell, x, packed = make_cell(name), normal(11, 2, 3), PackedOrder.of(GROUPS)
    rows = x[packed.rows]
    fast = cell.fold_packed(rows, packed, cell.initial, keep_states)
    slow = fold_steps(cell, rows, packed, cell.initial)
    assert_states_close(fast.groups, slow.groups)
    if keep_states:
        assert_states_close(fast.states, slow.states)


def test_a_cell_is_called_once_per_step_and_on_every_row_once():
    calls = []

    def step(state, row):
        calls.append(len(row))
        return state + row

    chain_reduce(step, torch.arange(11), GROUPS, torch.tensor(0))
    assert calls == [4, 3, 2, 1, 1]  # groups of 5, 3, 2, 1 rows


@some
@given(st.lists(st.integers(0, 5), max_size=25))
def test_before_is_the_packed_place_of_the_row_before(index):
    groups = Groups.from_index(torch.tensor(index, dtype=torch.int64), 6)
    packed = PackedOrder.of(groups)
    place = {row: place for place, row in enumerate(packed.rows.tolist())}
    expected = {
        place[row]: place[before] if before is not None else -1
        for rows in rows_by_group(groups)
        for before, row in zip([None, *rows], rows, strict=False)
    }
    assert dict(enumerate(packed.before.tolist())) == expected


@some
@given(st.lists(st.integers(0, 5), max_size=25))
def test_last_is_the_packed_place_of_the_last_row_of_each_group_longest_first(index):
    groups = Groups.from_index(torch.tensor(index, dtype=torch.int64), 6)
    packed = PackedOrder.of(groups)
    rows = rows_by_group(groups)
    by_length = packed.by_length.tolist()
    assert packed.rows[packed.last].tolist() == [rows[group][-1] for group in by_length]
    lengths = [len(rows[group]) for group in by_length]
    assert lengths == sorted((len(group) for group in rows if group), reverse=True)


def test_the_layout_is_that_of_torchs_packed_sequence():
    x = normal(13, 2)
    parts = x.split([2, 6, 1, 4])
    packed = PackedOrder.of(Groups.from_sizes([2, 6, 1, 4]))
    torchs = pack_sequence(parts, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == torchs.batch_sizes.tolist()
    assert torch.equal(x[packed.rows], torchs.data)


def test_no_rows_are_packed_as_none():
    packed = PackedOrder.of(Groups.from_sizes([0, 0]))
    parts = (packed.rows, packed.batch_sizes, packed.by_length, packed.last, packed.before)
    assert [part.tolist() for part in parts] == [[]] * 5
