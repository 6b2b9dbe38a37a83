"""The learned monoid as an aggregator: what it is made of, and what it costs."""

import pytest
import torch
from aggr.cases import (
    CHANNELS,
    INDEX,
    NUM_GROUPS,
    RAGGED,
    UNSORTED,
    X,
    batch,
    make,
    normal,
    seeded,
)
from torch import nn

from treefold import (
    BinaryGRU,
    Groups,
    LCMAggregation,
    TableRows,
    record_penalties,
)
from treefold.algebra import ASSOCIATIVITY, COMMUTATIVITY, IDENTITY, Max, Sum
from treefold.fold import fold_levels
from treefold.operators import OPERATORS


class Counting:
    """Addition that counts how many rows it has combined."""

    identity = torch.zeros(())

    def __init__(self):
        self.calls = self.rows = 0

    def __call__(self, a, b):
        self.calls, self.rows = self.calls + 1, self.rows + a.shape[0]
        return a + b


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


class WithIdentity(Sum):
    def __init__(self, identity):
        super().__init__()
        self.given = identity

    @property
    def identity(self):
        return self.given


@pytest.mark.parametrize(
    ("identity", "words"), [(0.0, "0.0"), (torch.zeros(CHANNELS + 1), r"of shape \[")], ids=str
)
def test_an_identity_that_is_no_element_is_refused(identity, words):
    with pytest.raises(ValueError, match=rf"identity of WithIdentity is {words}.*; expected a"):
        LCMAggregation(CHANNELS, WithIdentity(identity))


@pytest.mark.parametrize("shape", [(), (1,), (CHANNELS,), (2, CHANNELS)])
def test_an_identity_may_have_fewer_axes_than_an_element_or_as_many(shape):
    sets = LCMAggregation(CHANNELS, WithIdentity(torch.zeros(shape)))
    x = normal(3, 2, CHANNELS)
    out = sets(x, torch.tensor([0, 0, 2]), dim_size=3, dim=0)
    torch.testing.assert_close(out[:2], torch.stack([x[:2].sum(0), torch.zeros_like(x[0])]))


@pytest.mark.parametrize("training", [False, True])
def test_binary_gru_sees_that_the_rows_of_a_plain_tensor_are_a_permutation(monkeypatch, training):
    module, seen = LCMAggregation(CHANNELS).train(training), []

    def fold(op, x, plan):
        seen.append(x.is_permutation)
        return fold_levels(op, x, plan)

    monkeypatch.setattr("treefold.operators.engine.folding.fold_levels", fold)
    monkeypatch.setattr("treefold.operators.engine.folding.can_compute", lambda *_: False)
    x, groups = X.float(), Groups.from_index(UNSORTED)
    module(x, UNSORTED)
    module.aggregate(x, groups)
    module.aggregate(TableRows(x, torch.arange(len(x))), groups)  # who knows what is in a table
    module.aggregate(x, Groups.from_mask(torch.arange(len(x)).view(1, -1) > 3))
    assert seen == [True, True, False, False]
