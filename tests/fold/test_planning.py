import sys
from math import ceil, log2

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import BRACKETINGS, REPEATABLE, SIZES, depths, leaves_of, seeded, some, trees_of

from treefold.fold import plan_tree

bracketings = pytest.mark.parametrize("bracketing", BRACKETINGS)


@some
@given(SIZES, st.sampled_from(BRACKETINGS), st.integers(0, 1000))
def test_leaves_stay_in_order_and_every_pair_meets_once(sizes, bracketing, seed):
    plan = plan_tree(torch.tensor(sizes, dtype=torch.int64), bracketing, seeded(seed))
    trees = trees_of(plan)
    assert [leaf for tree in trees for leaf in leaves_of(tree)] == list(range(sum(sizes)))
    assert [len(leaves_of(tree)) for tree in trees] == sizes
    assert plan.num_applications == sum(sizes) - sum(size > 0 for size in sizes)
    assert plan.depth == max((max(depths(tree)) for tree in trees), default=0)
    assert (plan.num_rows, plan.num_groups) == (sum(sizes), len(sizes))


@bracketings
@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 0], [1], [1, 0, 1, 1]])
def test_where_nobody_meets_there_are_no_levels(bracketing, sizes):
    plan = plan_tree(sizes, bracketing)
    assert (plan.levels, plan.depth, plan.num_applications) == ((), 0, 0)
    leaves = iter(range(sum(sizes)))
    assert trees_of(plan) == [next(leaves) if size else None for size in sizes]
    assert plan.children.shape == (0, 2)


def test_balanced_is_the_default():
    assert trees_of(plan_tree([7, 5])) == trees_of(plan_tree([7, 5], "balanced"))
    assert trees_of(plan_tree([7, 5])) != trees_of(plan_tree([7, 5], "carry"))


@pytest.mark.parametrize("bracketing", REPEATABLE)
def test_a_tree_depends_on_the_size_of_its_group_alone(bracketing):
    (alone,) = trees_of(plan_tree([11], bracketing))
    for others in ([], [0], [1], [2, 40], [11, 64]):
        assert trees_of(plan_tree([11, *others], bracketing))[0] == alone


@bracketings
def test_sizes_may_be_a_list_or_any_integers(bracketing):
    expected = trees_of(plan_tree([3, 0, 7], bracketing, seeded()))
    for dtype in (torch.int32, torch.uint8):
        sizes = torch.tensor([3, 0, 7], dtype=dtype)
        assert trees_of(plan_tree(sizes, bracketing, seeded())) == expected


def test_an_unknown_bracketing_is_refused_with_the_known_ones():
    message = "unknown bracketing 'heap'; choose from balanced, carry, random"
    with pytest.raises(ValueError, match=message):
        plan_tree([3], "heap")


@bracketings
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([3, -1], "sizes hold -1; expected 0 or more"),
        ([3.0], r"sizes is torch.float32 of shape \(1,\); expected integers"),
        ([[3]], r"sizes is torch.int64 of shape \(1, 1\); expected integers in one dimension"),
    ],
)
def test_bad_sizes_are_refused(bracketing, sizes, message):
    with pytest.raises(ValueError, match=message):
        plan_tree(torch.tensor(sizes), bracketing)


def calls_made(function):
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("bracketing", REPEATABLE)
def test_planning_takes_no_more_python_for_more_groups(bracketing):
    few, many = (torch.arange(20).repeat(times) for times in (1, 500))
    plan_tree(few, bracketing)  # whatever is set up once
    # The least of some: what happens to be collected meanwhile makes calls too.
    calls = min(calls_made(lambda: plan_tree(few, bracketing)) for _ in range(3))
    assert min(calls_made(lambda: plan_tree(many, bracketing)) for _ in range(3)) == calls


@bracketings
def test_planning_takes_python_in_proportion_to_the_depth_only(bracketing):
    def calls_per_level(size):
        sizes = torch.tensor([size])
        return (
            calls_made(lambda: plan_tree(sizes, bracketing, seeded()))
            / plan_tree(sizes, bracketing, seeded()).depth
        )

    assert calls_per_level(100_000) <= 1.5 * calls_per_level(100)


def assert_folds_everything(plan, sizes):
    assert plan.num_applications == sizes.sum() - (sizes > 0).sum()
    assert plan.depth == ceil(log2(sizes.max()))
    assert torch.bincount(plan.leaves, minlength=plan.num_rows).eq(1).all()


def test_ten_million_groups_can_be_planned():
    sizes = torch.randint(1, 3, (10_000_000,), generator=seeded())
    assert_folds_everything(plan_tree(sizes), sizes)


def test_one_group_of_ten_million_rows_can_be_planned():
    sizes = torch.tensor([10_000_000])
    assert_folds_everything(plan_tree(sizes), sizes)
