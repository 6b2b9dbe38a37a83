"""Quantiles have PyG's values and gradients, and what PyG's depend on does not matter."""

from typing import get_args

import numpy as np
import pytest
import torch
from aggr.cases import CHANNELS, INDEX, NUM_GROUPS, UNSORTED, X, batch, few, normal
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn import aggr as pyg

from treefold import static_plans
from treefold.aggr import MedianAggregation, QuantileAggregation
from treefold.aggr.quantile import Interpolation

INTERPOLATIONS = get_args(Interpolation)


@few
@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    q=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=3),
    interpolation=st.sampled_from(INTERPOLATIONS),
)
def test_quantiles_are_those_of_numpy(sizes, q, interpolation):
    x, index = batch(sizes)
    out = QuantileAggregation(q, interpolation)(x, index, dim_size=len(sizes))
    for row, rows in zip(out.view(len(sizes), len(q), CHANNELS), x.split(sizes), strict=True):
        expected = np.zeros((len(q), CHANNELS))
        if len(rows):
            # Positions are computed in single precision, as PyG does.
            points = np.float32(q) * np.float32(len(rows) - 1)
            ordered = rows.sort(0).values.numpy()
            low, high = np.floor(points).astype(int), np.ceil(points).astype(int)
            share = {"lower": 0, "higher": 1, "midpoint": 0.5, "linear": points - low}
            weight = share.get(interpolation, np.round(points) - low)
            weight = np.broadcast_to(weight, (len(q),))[:, None]
            expected = ordered[low] * (1 - weight) + ordered[high] * weight
        np.testing.assert_allclose(row, expected, atol=1e-6)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_values_and_gradients_are_pygs(interpolation):
    q = [0.0, 0.3, 0.5, 1.0]
    x = X.clone().requires_grad_()
    ours = QuantileAggregation(q, interpolation, fill_value=7.0)(x, UNSORTED)
    theirs = pyg.QuantileAggregation(q, interpolation, fill_value=7.0)(x, UNSORTED)
    close = {"rtol": 1e-5, "atol": 1e-5}  # PyG adds places in single precision
    torch.testing.assert_close(ours, theirs, **close)
    weight = normal(*ours.shape, seed=1)
    found, expected = (torch.autograd.grad((y * weight).sum(), x)[0] for y in (ours, theirs))
    torch.testing.assert_close(found, expected, **close)


def test_the_median_is_pygs():
    torch.testing.assert_close(
        MedianAggregation()(X, UNSORTED), pyg.MedianAggregation()(X, UNSORTED)
    )
    assert torch.equal(
        MedianAggregation(fill_value=-1.0)(X[:0], INDEX[:0], dim_size=2),
        torch.full((2, CHANNELS), -1.0, dtype=X.dtype),
    )


def test_towers_and_other_axes_are_sorted_one_by_one():
    module, towers = QuantileAggregation([0.2, 0.9]), normal(len(X), 3, CHANNELS)
    out = module(towers, UNSORTED, dim=0)
    for tower in range(3):
        torch.testing.assert_close(out[:, tower], module(towers[:, tower], UNSORTED))
    torch.testing.assert_close(module(towers.movedim(0, 1), UNSORTED, dim=1), out.movedim(0, 1))


def test_a_static_plan_gives_the_same():
    module, towers = QuantileAggregation([0.2, 0.9]), normal(len(X), 2, CHANNELS)
    with static_plans(8):
        static = module(towers, UNSORTED, dim_size=NUM_GROUPS, dim=0)
    torch.testing.assert_close(static, module(towers, UNSORTED, dim=0), rtol=1e-5, atol=1e-5)


def test_nan_is_the_largest_as_in_torchs_sort():
    x = torch.tensor([[3.0], [float("nan")], [1.0], [float("inf")]])
    index = torch.zeros(4, dtype=torch.int64)
    module = QuantileAggregation([0.0, 1 / 3, 2 / 3, 1.0], "nearest")
    out = module(x, index)[0]
    torch.testing.assert_close(
        out, torch.tensor([1, 3, float("inf"), float("nan")]), equal_nan=True
    )


def test_gradcheck():
    x = normal(9, 2).requires_grad_()
    index = torch.tensor([0, 2, 0, 2, 2, 0, 3, 0, 2])
    torch.autograd.gradcheck(lambda x: QuantileAggregation([0.4, 0.8])(x, index), x)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"q is 1.5; expected a number from 0 to 1"):
        QuantileAggregation(1.5)
    with pytest.raises(ValueError, match="unknown interpolation 'cubic'; choose from linear"):
        QuantileAggregation(0.5, "cubic")
    with pytest.raises(ValueError, match=r"rows are torch.int64; expected floating point"):
        MedianAggregation()(torch.ones(3, 2, dtype=torch.int64), torch.zeros(3, dtype=torch.int64))
