from collections import Counter
from itertools import chain
from math import ceil, log, log2

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import SIZES, depths, leaves_of, reference_trees, seeded, some, trees_of

from treefold.fold import plan_tree
from treefold.fold.reference import fold_carry

NUM_TREES = 14_000


@some
@given(SIZES)
def test_each_carry_tree_is_the_reference_tree(sizes):
    plan = plan_tree(sizes, "carry")
    assert trees_of(plan) == reference_trees(fold_carry, sizes)
    assert plan.depth == ceil(log2(max([1, *sizes])))


def test_the_carry_trees_of_all_small_sizes_are_the_reference_trees():
    sizes = [n for pair in zip(range(140), range(140, 0, -1), strict=True) for n in pair]
    assert trees_of(plan_tree(sizes, "carry")) == reference_trees(fold_carry, sizes)


def test_five_rows_carry_the_last_one_to_the_root():
    assert trees_of(plan_tree([5], "carry")) == [(((0, 1), (2, 3)), 4)]


def test_one_row_more_than_a_power_of_two_hangs_from_the_root():
    (tree,) = trees_of(plan_tree([33], "carry"))
    assert depths(tree) == [6] * 32 + [1]


def shape(tree):
    return tuple(map(shape, tree)) if isinstance(tree, tuple) else "."


def probability(tree):
    """The documented probability: the product of 1 / (leaves - 1) over all inner nodes."""
    if not isinstance(tree, tuple):
        return 1.0
    left, right = tree
    return probability(left) * probability(right) / (len(list(leaves_of(tree))) - 1)


def shapes_of(num_leaves):
    if num_leaves == 1:
        return ["."]
    splits = ((shapes_of(k), shapes_of(num_leaves - k)) for k in range(1, num_leaves))
    return [(a, b) for lefts, rights in splits for a in lefts for b in rights]


@some
@given(SIZES, st.integers(0, 1000))
def test_each_group_gets_a_tree_over_its_own_rows(sizes, seed):
    trees = trees_of(plan_tree(sizes, "random", seeded(seed)))
    starts = [sum(sizes[:group]) for group in range(len(sizes))]
    assert list(map(leaves_of, trees)) == [
        list(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)
    ]


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_the_root_splits_at_each_gap_equally_often(n):
    trees = trees_of(plan_tree([n] * NUM_TREES, "random", seeded(n)))
    counts = Counter(len(leaves_of(left)) for left, _ in trees)
    assert sorted(counts) == list(range(1, n))
    expected = NUM_TREES / (n - 1)
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_square < 20.5  # one in a thousand exceeds this, with five degrees of freedom


def test_each_of_the_14_shapes_of_five_leaves_is_as_frequent_as_documented():
    counts = Counter(map(shape, trees_of(plan_tree([5] * NUM_TREES, "random", seeded(0)))))
    expected = {tree: NUM_TREES * probability(tree) for tree in shapes_of(5)}
    assert len(expected) == 14
    assert sum(expected.values()) == pytest.approx(NUM_TREES)
    assert set(counts) == set(expected)
    chi_square = sum((counts[tree] - mean) ** 2 / mean for tree, mean in expected.items())
    assert chi_square < 34.5  # one in a thousand exceeds this, with thirteen degrees of freedom


def test_groups_of_one_batch_get_trees_of_their_own():
    trees = trees_of(plan_tree([30] * 50, "random", seeded(0)))
    assert len(set(map(shape, trees))) == 50


def test_trees_of_different_groups_are_independent():
    trees = trees_of(plan_tree([3, 3] * 4000, "random", seeded(0)))
    pairs = Counter(zip(map(shape, trees[::2]), map(shape, trees[1::2]), strict=True))
    assert len(pairs) == 4
    assert max(abs(count - 1000) for count in pairs.values()) < 110  # four standard deviations


def test_a_draw_can_be_repeated_with_its_generator_and_is_fresh_with_the_next():
    generator = seeded(5)
    first, second = (trees_of(plan_tree([40], "random", generator)) for _ in range(2))
    assert trees_of(plan_tree([40], "random", seeded(5))) == first
    assert first != second


def test_a_draw_without_generator_follows_the_global_seed():
    with torch.random.fork_rng():
        draws = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            draws.append(trees_of(plan_tree([40], "random")))
    assert draws[0] == draws[1] != draws[2]


def test_leaves_are_as_deep_as_documented():
    n = 1000
    trees = trees_of(plan_tree([n] * 20, "random", seeded(0)))
    mean = sum(chain.from_iterable(map(depths, trees))) / (20 * n)
    harmonic = sum(1 / k for k in range(2, n + 1))
    assert mean == pytest.approx(2 * harmonic, rel=0.05)  # exactly 2 (H_n - 1), about 2 ln n
    assert all(max(depths(tree)) < 4.5 * log(n) for tree in trees)
