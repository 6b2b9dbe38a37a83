"""Subtrees folded by themselves and then joined are the tree of one machine."""

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import reference_trees, some, trees_of

from treefold.fold.reference import fold_balanced
from treefold.fold.subtrees import cut_trees, plan_joining

RUNS = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=5), min_size=1, max_size=5)


def joined_trees(groups):
    """The trees of groups, each given as the sizes of its runs of rows."""
    totals = torch.tensor([sum(runs) for runs in groups]).repeat_interleave(
        torch.tensor([len(runs) for runs in groups])
    )
    high = torch.cat([torch.tensor(runs).cumsum(0) for runs in groups])
    low = high - torch.tensor([size for runs in groups for size in runs])
    parts = cut_trees(totals, low, high)
    group_of_run = torch.tensor([g for g, runs in enumerate(groups) for _ in runs])
    join = plan_joining(parts, group_of_run[parts.runs], len(groups))
    folded = trees_of(parts.plan())

    def grafted(tree):
        return tuple(map(grafted, tree)) if isinstance(tree, tuple) else folded[tree]

    return [None if tree is None else grafted(tree) for tree in trees_of(join)], parts


@some
@given(RUNS)
def test_wherever_rows_are_cut_the_joined_tree_is_the_reference_tree(groups):
    trees, _ = joined_trees(groups)
    assert trees == reference_trees(fold_balanced, [sum(runs) for runs in groups])


def test_all_two_cuts_of_all_small_sizes_join_to_the_reference_tree():
    groups = [[cut, size - cut] for size in range(1, 40) for cut in range(size + 1)]
    trees, _ = joined_trees(groups)
    assert trees == reference_trees(fold_balanced, [sum(runs) for runs in groups])


@some
@given(st.integers(1, 3000), st.integers(0, 4))
def test_a_run_between_cuts_of_the_tree_is_one_part(size, depth):
    cuts = [size * place >> depth for place in range(2**depth + 1)]
    runs = [high - low for low, high in pairwise(cuts)]
    _, parts = joined_trees([runs])
    assert len(parts) == sum(run > 0 for run in runs)


@some
@given(st.integers(1, 10**6), st.data())
def test_any_run_is_a_few_parts(size, data):
    low = data.draw(st.integers(0, size - 1))
    high = data.draw(st.integers(low + 1, size))
    parts = cut_trees(torch.tensor([size]), torch.tensor([low]), torch.tensor([high]))
    assert len(parts) <= max(1, 2 * size.bit_length())
    assert int(parts.sizes.sum()) == high - low
    assert parts.first_rows.tolist() == (low + parts.sizes.cumsum(0) - parts.sizes).tolist()


def test_the_picture_in_the_module_is_true():
    trees, parts = joined_trees([[5, 3]])
    assert parts.sizes.tolist() == [4, 1, 1, 2]
    assert trees == [(((0, 1), (2, 3)), ((4, 5), (6, 7)))]
