"""The trees that sets are folded over; rows may come from a table."""

import pytest
import torch
from aggr.cases import (
    CHANNELS,
    INDEX,
    NUM_GROUPS,
    RAGGED,
    UNSORTED,
    Skewed,
    X,
    every_monoid,
    make,
    seeded,
)
from torch import nn

from treefold import (
    LCMAggregation,
    record_penalties,
)
from treefold.fold import Groups, TableRows, plan_tree, tree_reduce
from treefold.fold.reference import fold_balanced, fold_carry


@pytest.mark.parametrize("training", [False, True])
def test_training_and_evaluation_have_their_own_trees(training):
    op = Skewed().double()
    module = LCMAggregation(
        CHANNELS, op, shuffle=False, bracketing="carry", eval_bracketing="balanced"
    ).train(training)
    fold = fold_carry if training else fold_balanced
    expected = [fold(op, rows.split(1))[0] for rows in X.split(RAGGED) if len(rows)]
    torch.testing.assert_close(module(X, INDEX)[torch.tensor(RAGGED) > 0], torch.stack(expected))


def test_random_trees_are_drawn_afresh_in_training():
    module = LCMAggregation(
        CHANNELS, Skewed().double(), shuffle=False, bracketing="random", generator=seeded()
    )
    outs = torch.stack([module(X, INDEX) for _ in range(20)])
    assert outs[:, 3].unique(dim=0).shape[0] > 10  # six rows: 42 trees
    assert outs[:, 5].unique(dim=0).shape[0] == 1  # two rows: one tree
    assert torch.equal(module.eval()(X, INDEX), module(X, INDEX))


@every_monoid
@pytest.mark.parametrize("bracketing", ["balanced", "carry", "random"])
def test_a_plan_may_be_handed_over(name, bracketing):
    module = make(name)
    groups = Groups.from_index(UNSORTED, NUM_GROUPS)
    plan = plan_tree(groups.sizes, bracketing, seeded())
    rows = module.projected(X)
    expected = tree_reduce(module.operator, rows[groups.order], plan)
    torch.testing.assert_close(module.aggregate(X, groups, plan), expected)


def test_a_plan_for_other_rows_is_refused():
    module, groups = make("binary-mlp"), Groups.from_index(UNSORTED, NUM_GROUPS)
    with pytest.raises(ValueError, match="17 rows, but the plan is for 5"):
        module.aggregate(X, groups, plan_tree([2, 3]))


def test_a_plan_for_other_groups_of_as_many_rows_is_refused():
    module, groups = make("binary-mlp"), Groups.from_index(UNSORTED, NUM_GROUPS)
    with pytest.raises(ValueError, match="groups"):
        module.aggregate(X, groups, plan_tree([8, 9]))


@every_monoid
def test_rows_may_come_from_a_table(name):
    module, groups = make(name), Groups.from_index(UNSORTED, NUM_GROUPS)
    rows = torch.randint(0, 5, (len(UNSORTED),), generator=seeded())
    fast, slow = X[:5].clone().requires_grad_(), X[:5].clone().requires_grad_()
    from_table = module.aggregate(TableRows(fast, rows), groups)
    gathered = module.aggregate(slow[rows], groups)
    torch.testing.assert_close(from_table, gathered)
    for out in (from_table, gathered):
        out.square().sum().backward()
    torch.testing.assert_close(fast.grad, slow.grad)


@pytest.mark.parametrize("project", [None, nn.Linear(CHANNELS, CHANNELS).double()])
def test_law_losses_are_the_same_from_a_table(project):
    module = LCMAggregation(
        CHANNELS, Skewed().double(), associativity=1.0, shuffle=False, project=project
    )
    groups = Groups.from_index(UNSORTED, NUM_GROUPS)
    rows = torch.randint(0, 5, (len(UNSORTED),), generator=seeded())
    totals = []
    for x in (TableRows(X[:5], rows), X[:5][rows]):
        with record_penalties() as penalties:
            module.aggregate(x, groups)
        totals.append(penalties.total())
    torch.testing.assert_close(*totals)
