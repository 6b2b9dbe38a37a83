from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import BRACKETINGS, SIZES, normal, scramble, seeded, some, trees_of

from treefold.fold import TreePlan, fold_levels, plan_tree, tree_reduce


@some
@given(SIZES, st.sampled_from(BRACKETINGS))
def test_every_leaf_and_node_has_one_parent_or_is_what_its_group_comes_to(sizes, bracketing):
    plan = plan_tree(sizes, bracketing, seeded())
    singles = range(plan.num_rows - plan.num_singles, plan.num_rows)
    ends = [*singles, *(plan.num_rows + plan.root_nodes).tolist()]
    everyone = range(plan.num_rows + plan.num_applications)
    assert sorted(plan.children.flatten().tolist() + ends) == list(everyone)


@some
@given(SIZES, st.sampled_from(BRACKETINGS))
def test_children_are_made_before_their_parents_and_meet_in_the_fold(sizes, bracketing):
    plan = plan_tree(sizes, bracketing, seeded())
    node = torch.arange(plan.num_rows, plan.num_rows + plan.num_applications)
    assert (plan.children < node.unsqueeze(1)).all()

    x = torch.arange(plan.num_rows)
    nodes = fold_levels(scramble, x, plan_without_empty_groups(plan)).nodes
    made = torch.cat([x[plan.leaves], nodes])
    left, right = plan.children.unbind(1)
    assert nodes.tolist() == scramble(made[left], made[right]).tolist()


def plan_without_empty_groups(plan):
    """The same trees, their roots not collected: `scramble` has no identity."""
    none = plan.root_nodes[:0]
    return TreePlan(plan.num_rows, 0, plan.leaves, plan.levels, none, none, none)


@some
@given(SIZES, st.sampled_from(BRACKETINGS))
def test_groups_are_single_rooted_or_empty(sizes, bracketing):
    plan = plan_tree(sizes, bracketing, seeded())
    empty = (plan.tables.groups < 0).nonzero().squeeze(1)
    by_kind = {1: plan.single_groups, 2: plan.root_groups, 0: empty}
    for kind, groups in by_kind.items():
        expected = [group for group, size in enumerate(sizes) if min(size, 2) == kind]
        assert sorted(groups.tolist()) == expected
    assert plan.num_empty == sizes.count(0)
    assert plan.num_singles == sizes.count(1)


def test_every_group_has_a_place_unless_it_is_empty():
    plan = plan_tree([3, 0, 1, 2])
    leaf = plan.leaves.tolist().index(3)
    roots = dict(zip(plan.root_groups.tolist(), plan.root_nodes.tolist(), strict=True))
    assert plan.tables.groups.tolist() == [6 + roots[0], -1, leaf, 6 + roots[3]]


def test_a_plan_can_be_moved_and_used_again():
    x = normal(16, 3)
    for bracketing in BRACKETINGS:
        plan = plan_tree([3, 1, 12], bracketing, seeded())
        first = tree_reduce(torch.sub, x, plan)
        trees = trees_of(plan)  # has looked up the cached children
        moved = plan.to("cpu")
        assert trees_of(moved) == trees
        assert torch.equal(tree_reduce(torch.sub, x, moved), first)
        assert torch.equal(tree_reduce(torch.sub, x, plan), first)


def test_a_moved_plan_takes_all_of_its_tensors_along():
    moved = plan_tree([3, 1, 12, 0], "carry").to("meta")
    tensors = [moved.leaves, moved.single_groups, moved.root_groups, moved.root_nodes]
    tensors += [level.take for level in moved.levels if level.take is not None]
    assert len(tensors) > 4
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def test_pairs_are_a_plan_of_nodes_without_groups():
    plan = TreePlan.of_pairs(3)
    assert plan.children.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (plan.depth, plan.num_applications, plan.num_groups) == (1, 3, 0)
    nodes = fold_levels(torch.sub, torch.tensor([9, 1, 8, 2, 7, 3]), plan).nodes
    assert nodes.tolist() == [8, 6, 4]


def test_no_pairs_are_a_plan_of_nothing():
    plan = TreePlan.of_pairs(0)
    assert (plan.depth, plan.num_applications, plan.num_rows) == (0, 0, 0)
    assert plan.children.shape == (0, 2)


def test_a_plan_says_what_it_is():
    text = "TreePlan(8 rows in 4 groups, depth 3, 5 applications)"
    assert str(plan_tree([5, 0, 1, 2])) == text


@pytest.mark.parametrize("comes_from_right", [[], [False], [True], [True, False, True, True]])
def test_a_path_meets_row_after_row(comes_from_right):
    plan = TreePlan.of_path(comes_from_right)
    rows = [f"{row}" for row in range(plan.num_rows)]
    expected, nodes = rows[0] if rows else "", []
    for right, row in zip(comes_from_right, rows[1:], strict=True):
        expected = f"({row} {expected})" if right else f"({expected} {row})"
        nodes.append(expected)
    states = [*rows]
    for left, right in plan.children.tolist():
        states.append(f"({states[left]} {states[right]})")
    assert states[plan.num_rows :] == nodes
    found = replace(plan).tables  # by going through the levels
    assert all(map(torch.equal, found, plan.tables))
    assert (plan.num_applications, plan.num_groups) == (len(comes_from_right), 0)
