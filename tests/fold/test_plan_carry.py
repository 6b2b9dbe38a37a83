from math import ceil, log2

from hypothesis import given
from trees import SIZES, depths, reference_trees, some, trees_of

from treefold.fold import plan_tree
from treefold.fold.reference import fold_carry


@some
@given(SIZES)
def test_each_tree_is_the_reference_tree(sizes):
    plan = plan_tree(sizes, "carry")
    assert trees_of(plan) == reference_trees(fold_carry, sizes)
    assert plan.depth == ceil(log2(max([1, *sizes])))


def test_the_trees_of_all_small_sizes_are_the_reference_trees():
    sizes = [n for pair in zip(range(140), range(140, 0, -1), strict=True) for n in pair]
    assert trees_of(plan_tree(sizes, "carry")) == reference_trees(fold_carry, sizes)


def test_five_rows_carry_the_last_one_to_the_root():
    assert trees_of(plan_tree([5], "carry")) == [(((0, 1), (2, 3)), 4)]


def test_one_row_more_than_a_power_of_two_hangs_from_the_root():
    (tree,) = trees_of(plan_tree([33], "carry"))
    assert depths(tree) == [6] * 32 + [1]
