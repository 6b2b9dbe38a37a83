from math import ceil, log2

import torch
from hypothesis import given
from trees import SIZES, depths, reference_trees, some, trees_of

from treefold.fold import plan_tree
from treefold.fold.plan_balanced import tree_heights
from treefold.fold.reference import fold_balanced


@some
@given(SIZES)
def test_each_tree_is_the_reference_tree(sizes):
    assert trees_of(plan_tree(sizes)) == reference_trees(fold_balanced, sizes)


def test_the_trees_of_all_small_sizes_are_the_reference_trees():
    sizes = [n for pair in zip(range(140), range(140, 0, -1), strict=True) for n in pair]
    assert trees_of(plan_tree(sizes)) == reference_trees(fold_balanced, sizes)


@some
@given(SIZES)
def test_each_tree_has_minimal_height_and_leaves_at_two_adjacent_depths(sizes):
    plan = plan_tree(sizes)
    for tree, size in zip(trees_of(plan), sizes, strict=True):
        if size:
            assert max(depths(tree)) == ceil(log2(size))
            assert min(depths(tree)) >= ceil(log2(size)) - 1
    assert plan.depth == ceil(log2(max([1, *sizes])))


def test_six_rows_make_two_pairs_and_let_two_pass():
    plan = plan_tree([6])
    assert trees_of(plan) == [((0, (1, 2)), (3, (4, 5)))]
    assert [(level.num_pairs, level.num_waiting) for level in plan.levels] == [
        (2, 2),
        (2, 0),
        (1, 0),
    ]


@some
@given(SIZES)
def test_only_the_first_level_lets_rows_wait_and_only_the_second_gathers(sizes):
    levels = plan_tree(sizes).levels
    assert all(level.num_waiting == 0 for level in levels[1:])
    assert all(level.take is None for level in levels[:1] + levels[2:])


def test_powers_of_two_need_no_gathering_at_all():
    assert all(level.take is None for level in plan_tree([8, 2, 16, 4]).levels)


def test_heights_are_exact_where_floating_logarithms_are_not():
    powers = [2**exponent for exponent in range(1, 50)]
    for shift, height in ((-1, 0), (0, 0), (1, 1)):
        sizes = torch.tensor([power + shift for power in powers])
        expected = [exponent + height for exponent in range(1, 50)]
        if shift == -1:
            expected[0] = 0  # one row is its own tree
        assert tree_heights(sizes).tolist() == expected
    assert tree_heights(torch.tensor([0, 1, 2])).tolist() == [0, 0, 1]
