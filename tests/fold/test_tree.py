import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from trees import (
    BRACKETINGS,
    REPEATABLE,
    SIZES,
    fold_along,
    normal,
    reference_reduce,
    scramble,
    seeded,
    some,
    trees_of,
    weighted,
)

from treefold.algebra import KthMinimum, Max, Mean, Product, Sum, Variance
from treefold.fold import Groups, TableRows, fold_levels, plan_tree, tree_fold, tree_reduce

RAGGED = [3, 0, 1, 8, 5, 2, 0, 1, 13]
TOTAL = sum(RAGGED)

bracketings = pytest.mark.parametrize("bracketing", BRACKETINGS)


class Skewed(nn.Module):
    """A learned operator that is neither associative nor commutative."""

    def __init__(self, channels):
        super().__init__()
        self.linear = nn.Linear(2 * channels, channels, dtype=torch.float64)
        self.identity = nn.Parameter(normal(channels, seed=9))

    def forward(self, a, b):
        return torch.tanh(self.linear(torch.cat([a, b], -1))) + a / 2


def plan_of(bracketing, sizes=RAGGED):
    return plan_tree(sizes, bracketing, seeded())


@some
@given(SIZES, st.sampled_from(BRACKETINGS))
def test_each_group_comes_to_what_its_tree_says(sizes, bracketing):
    sizes = [max(size, 1) for size in sizes]
    plan = plan_of(bracketing, sizes)
    rows = list(range(sum(sizes)))
    out = tree_reduce(scramble, torch.tensor(rows, dtype=torch.int64), plan)
    assert out.tolist() == [fold_along(tree, scramble, rows) for tree in trees_of(plan)]


@bracketings
@pytest.mark.parametrize("feature", [(), (3,), (2, 1, 4)])
def test_sums_and_maxima_are_torchs_own(bracketing, feature):
    x = torch.randint(-99, 99, (TOTAL, *feature), generator=seeded(1))
    groups = x.split(RAGGED)
    sums, maxima = (tree_reduce(op, x, plan_of(bracketing)) for op in (Sum(), Max()))
    lowest = torch.full(feature, torch.iinfo(x.dtype).min)
    assert torch.equal(sums, torch.stack([group.sum(0) for group in groups]))
    assert torch.equal(
        maxima, torch.stack([group.amax(0) if len(group) else lowest for group in groups])
    )


def test_empty_groups_give_the_true_identity_in_the_type_of_the_rows():
    plan = plan_tree([0, 2])
    maxima = tree_reduce(Max(), torch.tensor([1.0, 2.0]), plan)
    assert maxima.tolist() == [-math.inf, 2.0]
    assert maxima.dtype == torch.float32


@bracketings
def test_states_may_be_tuples(bracketing):
    x, plan = normal(TOTAL, 2), plan_of(bracketing)
    mean, variance = Mean(), Variance()
    means = mean.decode(tree_reduce(mean, mean.encode(x), plan))
    variances = variance.decode(tree_reduce(variance, variance.encode(x), plan))
    for group, rows in enumerate(x.split(RAGGED)):
        if len(rows):
            torch.testing.assert_close(means[group], rows.mean(0))
            torch.testing.assert_close(variances[group], rows.var(0, correction=0))
        else:
            assert means[group].isnan().all()


@bracketings
def test_states_may_be_tuples_of_tuples(bracketing):
    op = Product(Sum(), Product(Mean(), KthMinimum(2)))
    x = normal(TOTAL)
    total, (mean, second) = op.decode(tree_reduce(op, op.encode(x), plan_of(bracketing)))
    for group, rows in enumerate(x.split(RAGGED)):
        torch.testing.assert_close(total[group], rows.sum())
        if len(rows) > 1:
            torch.testing.assert_close(mean[group], rows.mean())
            assert second[group] == rows.sort().values[1]


def test_a_function_will_do_where_no_group_is_empty():
    out = tree_reduce(lambda a, b: a * b, torch.arange(1, 7), plan_tree([3, 1, 2]))
    assert out.tolist() == [6, 4, 30]


def test_a_function_without_identity_is_refused_where_groups_are_empty():
    message = "2 of 4 groups are empty and .*multiply.* has no identity; give an operator with"

    def multiply(a, b):
        return a * b

    with pytest.raises(ValueError, match=message):
        tree_reduce(multiply, torch.arange(3), plan_tree([0, 2, 0, 1]))


@pytest.mark.parametrize("num_rows", [4, 6])
def test_a_wrong_number_of_rows_is_refused(num_rows):
    plan, x = plan_tree([2, 3]), torch.ones(num_rows, 2)
    for rows in (x, (x, x), TableRows(x, torch.zeros(num_rows, dtype=torch.int64))):
        with pytest.raises(ValueError, match=f"there are {num_rows} rows, but the plan is for 5"):
            tree_reduce(Mean(), rows, plan)


@bracketings
def test_modules_are_folded_like_the_reference(bracketing):
    op, x, plan = Skewed(3), normal(TOTAL, 3), plan_of(bracketing)
    expected = reference_reduce(op, x, RAGGED, bracketing, plan)
    torch.testing.assert_close(tree_reduce(op, x, plan), expected)


@bracketings
def test_gradients_are_those_of_the_reference(bracketing):
    op, x, plan = Skewed(3), normal(TOTAL, 3).requires_grad_(), plan_of(bracketing)
    fast = weighted(tree_reduce(op, x, plan))
    slow = weighted(reference_reduce(op, x, RAGGED, bracketing, plan))
    wanted = [x, *op.parameters()]
    torch.testing.assert_close(torch.autograd.grad(fast, wanted), torch.autograd.grad(slow, wanted))


@bracketings
def test_rows_of_a_table_fold_like_the_gathered_rows(bracketing):
    op, plan = Skewed(3), plan_of(bracketing)
    table = normal(4, 3).requires_grad_()
    rows = torch.randint(3, (TOTAL,), generator=seeded(2))  # row 3 is never used
    shared, gathered = (tree_reduce(op, x, plan) for x in (TableRows(table, rows), table[rows]))
    assert torch.equal(shared, gathered)
    first, second = (torch.autograd.grad(weighted(out), table) for out in (shared, gathered))
    torch.testing.assert_close(first, second)


def test_rows_need_not_be_contiguous():
    op, plan = Skewed(3), plan_tree([3, 4])
    x = normal(3, 14).t()[::2]
    assert not x.is_contiguous()
    assert torch.equal(tree_reduce(op, x, plan), tree_reduce(op, x.contiguous(), plan))
    expanded = normal(1, 3).expand(7, 3)
    assert torch.equal(tree_reduce(op, expanded, plan), tree_reduce(op, expanded.clone(), plan))


def test_inner_feature_axes_are_folded_side_by_side():
    op, plan, x = Skewed(3), plan_tree([3, 0, 4]), normal(7, 5, 2, 3)
    out = tree_reduce(op, x, plan)
    assert out.shape == (3, 5, 2, 3)
    for i in range(5):
        for j in range(2):
            torch.testing.assert_close(out[:, i, j], tree_reduce(op, x[:, i, j], plan))


@bracketings
@pytest.mark.parametrize("sizes", [[], [0, 0]])
def test_no_rows_come_to_identities(bracketing, sizes):
    op = Skewed(3)
    out = tree_reduce(op, torch.zeros(0, 3, dtype=torch.float64), plan_of(bracketing, sizes))
    assert torch.equal(out, op.identity.expand(len(sizes), 3))


@bracketings
@pytest.mark.parametrize("sizes", [[], [0], [1, 1], [1, 0]])
def test_parameters_get_zero_gradients_where_nobody_meets(bracketing, sizes):
    op = Skewed(3)
    out = tree_reduce(op, normal(sum(sizes), 3), plan_of(bracketing, sizes))
    out.sum().backward()
    assert op.linear.weight.grad.abs().max() == op.linear.bias.grad.abs().max() == 0
    assert op.identity.grad.tolist() == [sizes.count(0)] * 3


@bracketings
def test_the_operator_is_called_once_per_level_and_on_every_pair_once(bracketing):
    plan, calls = plan_of(bracketing), []

    def add(a, b):
        calls.append(len(a))
        return a + b

    add.identity = torch.tensor(0.0)
    tree_reduce(add, normal(TOTAL, 2), plan)
    assert calls == [level.num_pairs for level in plan.levels]
    assert sum(calls) == plan.num_applications == TOTAL - sum(size > 0 for size in RAGGED)


@bracketings
def test_a_fold_gives_the_groups_and_every_node_on_the_way(bracketing):
    x, plan = torch.arange(TOTAL), plan_of(bracketing)
    fold = tree_fold(Sum(), x, plan)
    made = torch.cat([x[plan.leaves], fold.nodes])
    assert torch.equal(fold.nodes, made[plan.children].sum(1))
    assert torch.equal(fold.groups[plan.root_groups], fold.nodes[plan.root_nodes])
    assert torch.equal(fold.groups, tree_reduce(Sum(), x, plan))


@pytest.mark.parametrize("bracketing", REPEATABLE)
def test_a_group_comes_to_the_same_whatever_else_is_in_the_batch(bracketing):
    op, mine = Skewed(3), normal(11, 3)
    alone = tree_reduce(op, mine, plan_tree([11], bracketing))[0]
    for sizes in ([4, 11], [0, 11], [64, 11], [1, 11], [11, 11]):
        x = torch.cat([normal(sizes[0], 3, seed=5), mine])
        torch.testing.assert_close(tree_reduce(op, x, plan_tree(sizes, bracketing))[1], alone)


def test_groups_plan_and_fold_are_three_lines():
    index, x = torch.tensor([2, 0, 2, 0, 0]), torch.tensor([1, 10, 2, 20, 30])
    groups = Groups.from_index(index, 4)
    plan = plan_tree(groups.sizes)
    assert tree_reduce(Sum(), x[groups.order], plan).tolist() == [60, 0, 3, 0]


class Delegated:
    """An operator that says it knows a faster way."""

    identity = torch.tensor(0.0)

    def fold_tree(self, x, plan):
        return fold_levels(Max(), x, plan)

    def __call__(self, a, b):
        raise AssertionError("the faster way was not taken")


def test_an_operator_that_knows_a_faster_way_is_asked_for_it():
    out = tree_reduce(Delegated(), torch.tensor([1.0, 5.0, 2.0]), plan_tree([2, 1]))
    assert out.tolist() == [5.0, 2.0]


def test_an_operator_may_answer_in_another_precision():
    def half(a, b):
        return (a + b).bfloat16()

    out = tree_reduce(half, torch.tensor([1.0, 2.0, 3.0, 4.0]), plan_tree([3, 1]))
    assert out.tolist() == [6.0, 4.0]


def test_an_operator_that_gives_no_element_is_refused():
    def doubled(a, b):
        return torch.cat([a, b], -1)

    with pytest.raises(ValueError, match=r"function makes \(2, 6\) from two stacks of \(2, 3\)"):
        tree_reduce(doubled, torch.zeros(4, 3), plan_tree([4]))
