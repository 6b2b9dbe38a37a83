"""The learned monoid as an aggregator: shuffling, bracketings, counts, and PyG's weights."""

import pytest
import torch
from aggregators.cases import (
    CHANNELS,
    INDEX,
    RAGGED,
    UNSORTED,
    Skewed,
    batch,
    every_monoid,
    make,
    normal,
    seeded,
)
from torch import nn
from torch_geometric.nn import aggr as pyg

from treefold import (
    BinaryGRU,
    FoldTree,
    LCMAggregation,
    StreamingFold,
    law_report,
    record_penalties,
)
from treefold.algebra import ASSOCIATIVITY, COMMUTATIVITY, IDENTITY, Max, Sum
from treefold.operators import OPERATORS
from treefold.reduction import Groups, TableRows, plan_tree, tree_reduce
from treefold.reduction.reference import fold_balanced, fold_carry

X = normal(len(INDEX), CHANNELS)
NUM_GROUPS = len(RAGGED)


class First:
    """a ⊕ b = a: the answer is the group's first row, so shuffling is seen."""

    identity = torch.full((), -1.0)

    def __call__(self, a, b):
        return a


class Counting:
    """Addition that counts how many rows it has combined."""

    identity = torch.zeros(())

    def __init__(self):
        self.calls = self.rows = 0

    def __call__(self, a, b):
        self.calls, self.rows = self.calls + 1, self.rows + a.shape[0]
        return a + b


def numbered(n):
    return torch.arange(float(n)).view(n, 1)


# Order


def test_training_shuffles_each_group_and_nothing_else():
    module, x = LCMAggregation(1, First(), generator=seeded()), numbered(len(UNSORTED))
    firsts = torch.stack([module(x, UNSORTED).squeeze(1) for _ in range(100)])
    for group, seen in enumerate(firsts.t()):
        members = x[group == UNSORTED].squeeze(1).tolist() or [-1.0]
        assert set(seen.tolist()) == set(members)


def test_shuffling_keeps_the_multiset():
    module, x = LCMAggregation(1, Sum(), generator=seeded()), numbered(len(UNSORTED))
    expected = torch.zeros(NUM_GROUPS, 1).index_add(0, UNSORTED, x)
    for _ in range(20):
        assert torch.equal(module(x, UNSORTED), expected)


def test_every_order_of_a_group_is_as_likely():
    class Spelling:
        identity = torch.zeros(())

        def __call__(self, a, b):  # 1, 2 -> 12, for numbers of one digit on the right
            return 10 * a + b

    module = LCMAggregation(1, Spelling(), bracketing="carry", generator=seeded())
    x, index = torch.tensor([1.0, 2.0, 3.0]).repeat(1200).view(-1, 1), torch.arange(3600) // 3
    orders, counts = module(x, index).unique(return_counts=True)
    assert orders.tolist() == [123, 132, 213, 231, 312, 321]
    assert ((counts - 200).abs() < 4 * (1200 * 5 / 36) ** 0.5).all()


@pytest.mark.parametrize(("training", "shuffle"), [(False, True), (True, False), (False, False)])
def test_there_is_no_shuffling_in_evaluation_or_where_it_is_off(training, shuffle):
    module = LCMAggregation(1, First(), shuffle=shuffle).train(training)
    x = numbered(len(UNSORTED))
    for _ in range(5):
        assert module(x, UNSORTED).squeeze(1).tolist() == [1, -1, 5, 0, -1, 8, 2]


@pytest.mark.parametrize("bracketing", ["balanced", "random"])
def test_a_generator_reproduces_training_and_leaves_torchs_own_alone(bracketing):
    before = torch.random.get_rng_state()
    outs = []
    for seed in (3, 3, 4):
        module = LCMAggregation(CHANNELS, Skewed().double(), bracketing=bracketing)
        module.load_state_dict(outs[0][0] if outs else module.state_dict())
        module.generator = seeded(seed)
        torch.random.set_rng_state(before)
        outs.append((module.state_dict(), module(X, UNSORTED)))
        assert torch.equal(torch.random.get_rng_state(), before)
    (_, first), (_, same), (_, other) = outs
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_a_generator_moves_on_from_call_to_call():
    module = LCMAggregation(CHANNELS, Skewed().double(), generator=seeded())
    assert not torch.equal(module(X, UNSORTED), module(X, UNSORTED))


# Trees


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
    expected = tree_reduce(module.operator, X[groups.order], plan)
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


# What it costs


@pytest.mark.parametrize(
    "weights", [{}, {"associativity": 0.0, "identity": 0.0, "commutativity": 0.0}]
)
@pytest.mark.parametrize("training", [False, True])
def test_the_operator_is_applied_once_per_meeting_where_no_law_weighs(weights, training):
    op = Counting()
    module = LCMAggregation(CHANNELS, op, **weights).train(training)
    with record_penalties():
        module(X, INDEX)
    assert op.rows == sum(size - 1 for size in RAGGED if size)
    assert op.calls == 3  # ceil(log2(6))


@pytest.mark.parametrize("evaluates", [True, False])
def test_laws_cost_nothing_in_evaluation_and_where_nobody_records(evaluates):
    op = Counting()
    module = LCMAggregation(CHANNELS, op, associativity=1.0).train(not evaluates)
    if evaluates:
        module(X, INDEX)
    else:
        with pytest.warns(UserWarning, match="nobody records"):
            module(X, INDEX)
    assert op.rows == sum(size - 1 for size in RAGGED if size)


def test_a_sample_bounds_the_cost_of_a_law():
    op = Counting()
    module = LCMAggregation(CHANNELS, op, associativity=1.0, law_nodes=2)
    x, index = batch([64, 64])
    with record_penalties():
        module(x, index)
    assert op.rows - 2 * 63 <= 2 * 5


# What it is made of


def test_the_operator_is_binary_gru_unless_said_otherwise():
    assert isinstance(LCMAggregation(4).operator, BinaryGRU)


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_may_be_named(operator):
    assert LCMAggregation(4, operator)(X.float(), INDEX).shape == (NUM_GROUPS, 4)


@pytest.mark.parametrize(("operator", "lowest"), [(Sum(), 0), (Max(), -torch.inf)])
def test_exact_monoids_will_do(operator, lowest):
    out = LCMAggregation(CHANNELS, operator)(X, UNSORTED)
    expected = torch.stack(
        [
            (rows.sum(0) if lowest == 0 else rows.amax(0))
            if len(rows)
            else X.new_full((4,), lowest)
            for rows in (X[group == UNSORTED] for group in range(NUM_GROUPS))
        ]
    )
    torch.testing.assert_close(out, expected)


def test_project_may_change_the_width_of_rows():
    aggregator = LCMAggregation(CHANNELS, project=nn.Linear(3, CHANNELS))
    assert (aggregator.in_channels, aggregator.out_channels) == (3, CHANNELS)
    assert aggregator(torch.randn(5, 3)).shape == (1, CHANNELS)
    with pytest.raises(ValueError, match=rf"shape \(5, 7\); expected \[n, ..., {CHANNELS}\]"):
        LCMAggregation(CHANNELS, project=nn.Linear(3, 7))(torch.randn(5, 3))


def test_project_is_applied_to_every_row_before_folding():
    project = nn.Linear(CHANNELS, CHANNELS).double()
    projected = LCMAggregation(CHANNELS, Sum(), project=project).eval()
    plain = LCMAggregation(CHANNELS, Sum()).eval()
    torch.testing.assert_close(projected(X, UNSORTED), plain(project(X), UNSORTED))


@pytest.mark.parametrize("name", ["conjugated-sum", "conjugated-max"])
def test_conjugated_aggregators_obey_every_law_and_mind_no_order(name):
    module = make(name)
    a, b, c = normal(3, 20, CHANNELS)
    for law in (ASSOCIATIVITY, COMMUTATIVITY):
        law.assert_holds(module.operator, *(a, b, c)[: law.arity], rtol=1e-9)
    if name == "conjugated-sum":
        IDENTITY.assert_holds(module.operator, a, rtol=1e-9)
    order = torch.randperm(len(X), generator=seeded())
    torch.testing.assert_close(module(X[order], UNSORTED[order]), module(X, UNSORTED))


def test_a_printed_aggregator_says_what_is_special_about_it():
    module = LCMAggregation(4, associativity=0.5, bracketing="random")
    assert repr(module).splitlines()[:2] == [
        "LCMAggregation(",
        "  4, associativity=0.5, bracketing=random",
    ]


# PyG's


def pyg_and_ours(in_channels, project, training=False):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = pyg.LCMAggregation(in_channels, CHANNELS, project=project).double()
    theirs.train(training)
    return theirs, LCMAggregation.from_pyg(theirs)


@pytest.mark.parametrize(
    ("in_channels", "project"), [(CHANNELS, False), (CHANNELS, True), (6, True)]
)
@pytest.mark.parametrize("training", [False, True])
def test_pygs_weights_give_pygs_answer_on_sets_of_equal_size(in_channels, project, training):
    theirs, ours = pyg_and_ours(in_channels, project, training)
    assert ours.training == training
    for size in range(1, 34):
        x, index = normal(3 * size, in_channels, seed=size), torch.arange(3).repeat_interleave(size)
        torch.testing.assert_close(ours(x, index), theirs(x, index))


@pytest.mark.parametrize("project", [False, True])
def test_pygs_gradients_are_ours_on_sets_of_equal_size(project):
    theirs, ours = pyg_and_ours(CHANNELS, project)
    x, index = normal(21, CHANNELS), torch.arange(3).repeat_interleave(7)
    grads = []
    for module in (theirs, ours):
        leaf = x.clone().requires_grad_()
        module(leaf, index).square().sum().backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(*grads)
    torch.testing.assert_close(ours.operator.cell.weight_ih.grad, theirs.gru_cell.weight_ih.grad)


@pytest.mark.parametrize("project", [False, True])
def test_pyg_depends_on_the_batch_and_we_do_not(project):
    theirs, ours = pyg_and_ours(CHANNELS, project)
    x, index = batch([3, 6])
    for module, depends in ((theirs, True), (ours, False)):
        alone, together = module(x[:3], index[:3])[0], module(x, index)[0]
        assert torch.allclose(alone, together) != depends
    torch.testing.assert_close(ours(x, index)[1], theirs(x, index)[1])  # the largest is unpadded


def test_pygs_weights_are_copied_and_keep_their_type():
    theirs = pyg.LCMAggregation(CHANNELS, CHANNELS).bfloat16()
    ours = LCMAggregation.from_pyg(theirs)
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.bfloat16}
    nn.init.zeros_(ours.operator.cell.weight_ih)
    nn.init.zeros_(ours.project[0].weight)
    assert theirs.gru_cell.weight_ih.any()
    assert theirs.lin.weight.any()


@pytest.mark.parametrize("wrong", [nn.Linear(2, 2), pyg.SumAggregation(), LCMAggregation(4), None])
def test_other_modules_are_refused(wrong):
    with pytest.raises(ValueError, match=rf"got a {type(wrong).__name__}; expected PyG's LCM"):
        LCMAggregation.from_pyg(wrong)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((16, 16), {}, "operator is 16; PyG's second argument, out_channels, is not here"),
        ((16, BinaryGRU), {}, r"got the class BinaryGRU; expected one of it: BinaryGRU\(...\)"),
        ((16,), {"project": True}, "project is True; expected a module"),
    ],
)
def test_what_pyg_s_module_would_take_is_refused_at_once(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        LCMAggregation(*arguments, **options)


def test_an_aggregator_in_place_of_its_operator_is_named():
    module = LCMAggregation(4)
    for misused in (law_report, FoldTree):
        with pytest.raises(ValueError, match="got a LCMAggregation; expected its operator"):
            misused(module, torch.randn(5, 4))
    with pytest.raises(ValueError, match=r"give `\.operator`"):
        StreamingFold(module)
