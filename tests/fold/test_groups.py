from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import seeded, some

from treefold.fold import Groups
from treefold.fold.groups import places_within

SIZES = st.lists(st.integers(0, 6), max_size=8)


def rows_by_group(groups):
    starts = (groups.sizes.cumsum(0) - groups.sizes).tolist()
    order = groups.order.tolist()
    return [order[s : s + n] for s, n in zip(starts, groups.sizes.tolist(), strict=True)]


def consecutive(sizes):
    return [list(range(sum(sizes[:g]), sum(sizes[: g + 1]))) for g in range(len(sizes))]


@some
@given(st.lists(st.integers(0, 6), max_size=30), st.integers(0, 3))
def test_an_index_groups_as_plain_python_does(index, spare):
    num_groups = max(index, default=-1) + 1 + spare
    groups = Groups.from_index(torch.tensor(index, dtype=torch.int64), num_groups)
    expected = [[i for i, g in enumerate(index) if g == group] for group in range(num_groups)]
    assert rows_by_group(groups) == expected
    assert groups.num_groups == num_groups
    assert groups.num_rows == len(index)
    assert groups.index.tolist() == sorted(index)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8])
def test_any_integers_will_do_for_an_index_a_pointer_and_sizes(dtype):
    index = torch.tensor([2, 0, 2, 1, 0], dtype=dtype)
    assert rows_by_group(Groups.from_index(index)) == [[1, 4], [3], [0, 2]]
    ptr = torch.tensor([0, 2, 2, 5], dtype=dtype)
    assert rows_by_group(Groups.from_ptr(ptr)) == [[0, 1], [], [2, 3, 4]]
    sizes = torch.tensor([2, 0, 3], dtype=dtype)
    assert rows_by_group(Groups.from_sizes(sizes)) == [[0, 1], [], [2, 3, 4]]
    assert Groups.from_sizes(sizes).sizes.dtype == torch.int64


def test_sums_do_not_overflow_a_narrow_type():
    assert Groups.from_sizes(torch.tensor([100, 100, 100], dtype=torch.int8)).num_rows == 300


def test_without_a_number_of_groups_the_highest_index_is_the_last_group():
    assert Groups.from_index(torch.tensor([3, 1])).num_groups == 4


@some
@given(SIZES)
def test_index_pointer_sizes_and_nested_tensor_agree(sizes):
    counts = torch.tensor(sizes, dtype=torch.int64)
    ptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    values = torch.arange(sum(sizes))
    built = [
        Groups.from_sizes(sizes, num_rows=sum(sizes)),
        Groups.from_sizes(counts),
        Groups.from_ptr(ptr, num_rows=sum(sizes)),
        Groups.from_ptr(ptr),
        Groups.from_index(torch.repeat_interleave(counts), len(sizes)),
    ]
    if sizes:
        built.append(Groups.from_nested(torch.nested.nested_tensor_from_jagged(values, ptr)))
    for groups in built:
        assert rows_by_group(groups) == consecutive(sizes)
        assert groups.num_rows == sum(sizes)
        assert groups.order.dtype == groups.sizes.dtype == torch.int64


@some
@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=5))
def test_a_mask_groups_the_flattened_places_where_it_is_true(mask):
    groups = Groups.from_mask(torch.tensor(mask))
    assert rows_by_group(groups) == [
        [4 * row + place for place in range(4) if mask[row][place]] for row in range(len(mask))
    ]
    assert groups.num_rows == 4 * len(mask)


def test_a_mask_without_places_or_groups_groups_nothing():
    assert Groups.from_mask(torch.zeros(3, 0, dtype=torch.bool)).sizes.tolist() == [0, 0, 0]
    assert Groups.from_mask(torch.zeros(0, 3, dtype=torch.bool)).num_groups == 0


def test_a_nested_tensor_with_gaps_groups_the_rows_it_shows():
    padded = torch.arange(20.0).view(2, 5, 2)
    shown = torch.nested.narrow(
        padded, 1, torch.tensor([1, 0]), torch.tensor([2, 5]), layout=torch.jagged
    )
    groups = Groups.from_nested(shown)
    assert rows_by_group(groups) == [[1, 2], [5, 6, 7, 8, 9]]
    assert groups.num_rows == 10
    parts = [rows.tolist() for rows in shown.values()[groups.order].split([2, 5])]
    assert parts == [padded[0, 1:3].tolist(), padded[1].tolist()]


def test_no_rows_and_no_groups_are_fine():
    none = torch.zeros(0, dtype=torch.int64)
    for groups in (
        Groups.from_index(none),
        Groups.from_ptr(torch.tensor([0])),
        Groups.from_sizes([]),
    ):
        assert (groups.num_groups, groups.num_rows, groups.index.tolist()) == (0, 0, [])
    for groups in (Groups.from_index(none, 2), Groups.from_ptr(torch.tensor([0, 0, 0]), 0)):
        assert groups.sizes.tolist() == [0, 0]
        assert groups.shuffled().order.tolist() == []


BAD_INPUT = {
    "negative index": (
        lambda: Groups.from_index(torch.tensor([0, -2]), 3),
        "index holds -2; expected values from 0 on",
    ),
    "negative index, open number": (
        lambda: Groups.from_index(torch.tensor([4, -1])),
        "index holds -1; expected values from 0 on",
    ),
    "index out of range": (
        lambda: Groups.from_index(torch.tensor([0, 3, 1]), 3),
        "index holds 3, expected values from 0 to 2; give a larger number of groups",
    ),
    "index without groups": (
        lambda: Groups.from_index(torch.tensor([0]), 0),
        "index holds 0.*give a larger number of groups",
    ),
    "negative number of groups": (
        lambda: Groups.from_index(torch.tensor([0]), -1),
        "the number of groups is -1; expected 0 or more",
    ),
    "float index": (
        lambda: Groups.from_index(torch.tensor([0.0, 1.0])),
        r"index is torch.float32 of shape \(2,\); expected integers in one dimension",
    ),
    "NaN in the index": (
        lambda: Groups.from_index(torch.tensor([0.0, torch.nan]), 2),
        r"index is torch.float32 of shape \(2,\); expected integers",
    ),
    "bool index": (
        lambda: Groups.from_index(torch.tensor([True, False])),
        r"index is torch.bool of shape \(2,\); expected integers",
    ),
    "index in two dimensions": (
        lambda: Groups.from_index(torch.tensor([[0, 1]])),
        r"index is torch.int64 of shape \(1, 2\); expected integers in one dimension",
    ),
    "index without dimension": (
        lambda: Groups.from_index(torch.tensor(0)),
        r"index is torch.int64 of shape \(\); expected integers in one dimension",
    ),
    "pointer that decreases": (
        lambda: Groups.from_ptr(torch.tensor([0, 5, 3, 8])),
        r"ptr.*5.*3.*expected",
    ),
    "pointer that starts late": (
        lambda: Groups.from_ptr(torch.tensor([1, 4]), 4),
        "ptr runs from 1 to 4; expected from 0 to 4",
    ),
    "pointer that starts late, open end": (
        lambda: Groups.from_ptr(torch.tensor([1, 4])),
        "ptr runs from 1 to 4; expected from 0 to the number of rows",
    ),
    "pointer that ends early": (
        lambda: Groups.from_ptr(torch.tensor([0, 4]), 5),
        "ptr runs from 0 to 4; expected from 0 to 5",
    ),
    "pointer of nothing": (
        lambda: Groups.from_ptr(torch.zeros(0, dtype=torch.int64)),
        "ptr is empty; expected one entry more than there are groups",
    ),
    "float pointer": (
        lambda: Groups.from_ptr(torch.tensor([0.0, 4.0])),
        r"ptr is torch.float32 of shape \(2,\); expected integers",
    ),
    "pointer in two dimensions": (
        lambda: Groups.from_ptr(torch.tensor([[0, 4]])),
        r"ptr is torch.int64 of shape \(1, 2\); expected integers in one dimension",
    ),
    "sizes that do not add up": (
        lambda: Groups.from_sizes([2, 3], num_rows=6),
        "sizes add up to 5, but there are 6 rows",
    ),
    "negative sizes": (
        lambda: Groups.from_sizes([2, -3, 1]),
        "sizes hold -3; expected 0 or more",
    ),
    "float sizes": (
        lambda: Groups.from_sizes(torch.tensor([2.0, 3.0])),
        r"sizes is torch.float32 of shape \(2,\); expected integers",
    ),
    "sizes in two dimensions": (
        lambda: Groups.from_sizes(torch.tensor([[2, 3]])),
        r"sizes is torch.int64 of shape \(1, 2\); expected integers in one dimension",
    ),
    "sizes without dimension": (
        lambda: Groups.from_sizes(torch.tensor(3)),
        r"sizes is torch.int64 of shape \(\); expected integers in one dimension",
    ),
    "float mask": (
        lambda: Groups.from_mask(torch.ones(2, 3)),
        r"mask is torch.float32 of shape \(2, 3\); expected torch.bool of shape \[groups, places\]",
    ),
    "mask in three dimensions": (
        lambda: Groups.from_mask(torch.ones(2, 3, 1, dtype=torch.bool)),
        r"mask is torch.bool of shape \(2, 3, 1\); expected torch.bool of shape \[groups, places\]",
    ),
    "plain tensor for a nested one": (
        lambda: Groups.from_nested(torch.ones(2, 3)),
        "layout torch.strided; expected a nested tensor of layout torch.jagged",
    ),
    "nested tensor that is not jagged": (
        lambda: Groups.from_nested(torch.nested.nested_tensor([torch.ones(2, 3)])),
        "layout torch.strided; expected a nested tensor of layout torch.jagged",
    ),
    "nested tensor that is ragged elsewhere": (
        lambda: Groups.from_nested(
            torch.nested.nested_tensor_from_jagged(
                torch.ones(6, 6), torch.tensor([0, 2, 6])
            ).transpose(1, 2)
        ),
        "ragged",
    ),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("bad", BAD_INPUT)
def test_bad_input_is_refused_with_what_was_given_and_what_was_expected(bad):
    build, message = BAD_INPUT[bad]
    with pytest.raises(ValueError, match=message):
        build()


@some
@given(st.lists(st.integers(0, 4), max_size=30), st.integers(0, 1000))
def test_shuffling_permutes_each_group_and_moves_no_row_to_another(index, seed):
    groups = Groups.from_index(torch.tensor(index, dtype=torch.int64), 5)
    shuffled = groups.shuffled(seeded(seed))
    assert [sorted(rows) for rows in rows_by_group(shuffled)] == rows_by_group(groups)
    assert shuffled.num_rows == groups.num_rows


def test_shuffling_keeps_to_the_places_a_mask_shows():
    mask = torch.tensor([[True, False, True, True], [False, True, False, False]])
    shuffled = Groups.from_mask(mask).shuffled(seeded(1))
    assert [sorted(rows) for rows in rows_by_group(shuffled)] == [[0, 2, 3], [5]]
    assert shuffled.num_rows == 8


def test_a_shuffle_can_be_repeated_with_its_generator_and_is_fresh_with_the_next():
    groups, generator = Groups.from_sizes([20, 30]), seeded(7)
    first, second = groups.shuffled(generator), groups.shuffled(generator)
    assert torch.equal(first.order, groups.shuffled(seeded(7)).order)
    assert not torch.equal(first.order, second.order)


def test_a_shuffle_without_generator_follows_the_global_seed():
    groups = Groups.from_sizes([20, 30])
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = groups.shuffled()
        torch.manual_seed(3)
        assert torch.equal(first.order, groups.shuffled().order)


def test_every_order_of_three_rows_is_equally_likely():
    num_groups = 6000
    shuffled = Groups.from_sizes([3] * num_groups).shuffled(seeded(0))
    drawn = shuffled.order.view(-1, 3) - 3 * torch.arange(num_groups).unsqueeze(1)
    orders, counts = drawn.unique(dim=0, return_counts=True)
    assert list(map(tuple, orders.tolist())) == list(permutations(range(3)))
    chi_square = ((counts - num_groups / 6) ** 2 / (num_groups / 6)).sum()
    assert chi_square < 20.5  # one in a thousand exceeds this, with five degrees of freedom


def test_groups_on_a_device_are_the_same_groups():
    groups = Groups.from_mask(torch.tensor([[True, False], [True, True]]))
    moved = groups.to("cpu")
    assert rows_by_group(moved) == rows_by_group(groups)
    assert moved.num_rows == groups.num_rows == 4


def test_places_count_from_zero_in_each_group():
    assert places_within(torch.tensor([3, 0, 1, 2])).tolist() == [0, 1, 2, 0, 0, 1]
