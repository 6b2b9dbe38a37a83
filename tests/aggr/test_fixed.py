"""The fixed aggregators: PyG's own, PNA by its definition, and exact monoids."""

import math

import pytest
import torch
from aggr.cases import CHANNELS, FIXED, INDEX, RAGGED, UNSORTED, make, normal, seeded
from torch_geometric.nn import aggr as pyg

import treefold
from treefold import FixedAggregation, MonoidAggregation
from treefold.algebra import (
    KthMinimum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Parity,
    Product,
    Sum,
    TopK,
    Variance,
)
from treefold.fold import Groups, TableRows

X = normal(len(INDEX), CHANNELS)
NUM_GROUPS = len(RAGGED)
GROUPS = Groups.from_index(UNSORTED, NUM_GROUPS)
SETS = [X[group == UNSORTED] for group in range(NUM_GROUPS)]

PYGS = {
    "sum": pyg.SumAggregation,
    "mean": pyg.MeanAggregation,
    "max": pyg.MaxAggregation,
    "min": pyg.MinAggregation,
    "std": pyg.StdAggregation,
}


@pytest.mark.parametrize(("name", "theirs"), PYGS.items())
def test_the_answers_are_pygs(name, theirs):
    torch.testing.assert_close(make(name)(X, UNSORTED), theirs()(X, UNSORTED))


@pytest.mark.parametrize(
    ("name", "theirs"), [("max", pyg.MaxAggregation), ("min", pyg.MinAggregation)]
)
def test_the_gradients_of_extremes_are_pygs(name, theirs):
    x = torch.randint(1, 4, X.shape, generator=seeded()).double().requires_grad_()  # some are equal
    towards = normal(NUM_GROUPS, CHANNELS)
    found, expected = (
        torch.autograd.grad(aggregation(x, UNSORTED), x, towards)[0]
        for aggregation in (make(name), theirs())
    )
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["max", "min"])
def test_an_extreme_of_zero_passes_its_whole_gradient_on(name):
    x = torch.zeros(4, CHANNELS, dtype=torch.float64, requires_grad=True)
    make(name)(x, torch.tensor([0, 2, 2, 2])).sum().backward()
    torch.testing.assert_close(x.grad[:, 0], torch.tensor([1, 1 / 3, 1 / 3, 1 / 3]).double())


def test_pna_is_four_moments_times_three_scalers():
    deg = torch.tensor([1, 4, 0, 2])
    out = FixedAggregation.pna(CHANNELS, deg).double()(X, UNSORTED).view(NUM_GROUPS, 3, 4, CHANNELS)
    mean_log = (1 * math.log(1) + 4 * math.log(2) + 2 * math.log(4)) / 7
    for rows, scaled in zip(SETS, out, strict=True):
        if not len(rows):
            assert not scaled.any()
            continue
        moments = torch.stack([rows.mean(0), rows.amax(0), rows.amin(0), rows.std(0, correction=0)])
        log = math.log(len(rows) + 1)
        for part, scaler in zip(scaled, (1, log / mean_log, mean_log / log), strict=True):
            torch.testing.assert_close(part, scaler * moments, rtol=1e-6, atol=1e-6)


def test_the_registry_passes_pnas_degrees_on():
    deg = [1, 4, 0, 2]
    named = treefold.aggregator("pna", CHANNELS, deg=deg).double()(X, UNSORTED)
    torch.testing.assert_close(named, FixedAggregation.pna(CHANNELS, deg).double()(X, UNSORTED))


def test_pna_is_the_same_for_flat_rows_and_towers():
    module = make("pna")  # PyG takes another path for two axes than for three
    towers = module(X.unsqueeze(1), UNSORTED, dim=0)
    torch.testing.assert_close(towers.squeeze(1), module(X, UNSORTED))


def test_pna_is_twelve_times_as_wide_as_its_input():
    module = treefold.aggregator("pna", 5)
    assert (module.in_channels, module.out_channels) == (5, 60)
    assert module(torch.ones(3, 5)).shape == (1, 60)


@pytest.mark.parametrize("name", FIXED)
def test_rows_may_come_from_a_table(name):
    module, rows = make(name), torch.randint(0, 5, (len(X),), generator=seeded())
    from_table = module.aggregate(TableRows(X[:5], rows), GROUPS)
    torch.testing.assert_close(from_table, module.aggregate(X[:5][rows], GROUPS))


@pytest.mark.parametrize("name", FIXED)
def test_nothing_is_learned(name):
    assert not list(make(name).parameters())
    make(name).reset_parameters()


def test_a_printed_aggregator_names_pygs():
    assert "StdAggregation" in repr(make("std"))


MONOIDS = {
    "sum": (Sum(), lambda rows: rows.sum(0)),
    "max": (Max(), lambda rows: rows.amax(0)),
    "mean": (Mean(), lambda rows: rows.mean(0)),
    "variance": (Variance(), lambda rows: rows.var(0, correction=0)),
    "logsumexp": (LogSumExp(), lambda rows: rows.logsumexp(0)),
    "second minimum": (KthMinimum(2), lambda rows: rows.sort(0).values[1]),
}


@pytest.mark.parametrize(("monoid", "by_hand"), MONOIDS.values(), ids=list(MONOIDS))
@pytest.mark.parametrize("dim", [0, -2, -1])
def test_exact_monoids_are_aggregators_too(monoid, by_hand, dim):
    module = MonoidAggregation(monoid)
    out = module(X.movedim(0, dim), UNSORTED, dim=dim).movedim(dim, 0)
    for row, rows in zip(out, SETS, strict=True):
        if len(rows) > 1:
            torch.testing.assert_close(row, by_hand(rows))


def test_the_empty_maximum_is_minus_infinity():
    out = MonoidAggregation(Max())(X, UNSORTED, dim_size=NUM_GROUPS + 1)
    assert (out[[1, 4, 7]] == -math.inf).all()


def test_exact_monoids_take_integers():
    bits = torch.tensor([[1], [1], [0], [1]])
    assert MonoidAggregation(Parity())(bits, torch.tensor([0, 0, 1, 1])).tolist() == [[0], [1]]


def test_exact_monoids_take_rows_from_a_table():
    rows = torch.randint(0, 5, (len(X),), generator=seeded())
    module = MonoidAggregation(Mean())
    from_table = module.aggregate(TableRows(X[:5], rows), GROUPS)
    torch.testing.assert_close(from_table, module.aggregate(X[:5][rows], GROUPS), equal_nan=True)


@pytest.mark.parametrize("dim", [0, -2])
def test_groups_are_where_elements_were_even_if_an_answer_has_more_axes(dim):
    out = MonoidAggregation(TopK(2))(X, UNSORTED, dim=dim)
    assert out.shape == (NUM_GROUPS, CHANNELS, 2)
    for row, rows in zip(out, SETS, strict=True):
        if len(rows) >= 2:
            torch.testing.assert_close(row, rows.sort(0, descending=True).values[:2].t())


def test_a_printed_monoid_aggregator_names_its_monoid():
    assert repr(MonoidAggregation(KthMinimum(2))).startswith("MonoidAggregation(KthMinimum")


def test_a_product_of_monoids_gives_a_tuple():
    x, index = torch.tensor([[3.0], [1.0], [2.0]]), torch.tensor([0, 0, 1])
    least, most = MonoidAggregation(Product(Min(), Max()))(x, index)
    assert (least.tolist(), most.tolist()) == ([[1.0], [2.0]], [[3.0], [2.0]])
