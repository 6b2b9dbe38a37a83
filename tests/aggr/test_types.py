"""Rows of another type of number than a module's parameters: refused alike, or taken on purpose."""

import pytest
import torch
from aggr.cases import CHANNELS, UNSORTED, X, every_learned, make
from torch import nn

from treefold import LCMAggregation, algebra

SINGLE, DOUBLE, HALF = torch.float32, torch.float64, torch.bfloat16


@every_learned
@pytest.mark.parametrize(
    ("rows", "module", "advice"),
    [
        (DOUBLE, SINGLE, r"give x\.float\(\), or use module\.double\(\)"),
        (SINGLE, DOUBLE, r"give x\.double\(\), or use module\.float\(\)"),
        (SINGLE, HALF, r"give x\.bfloat16\(\), or use module\.float\(\)"),
        (torch.int64, SINGLE, r"give x\.float\(\)$"),
    ],
    ids=str,
)
@pytest.mark.parametrize("training", [False, True])
def test_rows_of_another_type_are_refused_and_it_is_said_what_to_do(
    name, rows, module, advice, training
):
    made = make(name, module).train(training)
    message = rf"rows are {rows}, but the parameters of \w+ are {module}; {advice}"
    with pytest.raises(ValueError, match=message):
        made(X.to(rows), UNSORTED)


@every_learned
def test_autocast_does_not_make_double_precision_fit(name):
    with torch.autocast("cpu", dtype=HALF), pytest.raises(ValueError, match=r"rows are .*float64"):
        make(name, SINGLE)(X, UNSORTED)


@every_learned
def test_half_precision_rows_without_autocast_are_for_operators_that_take_them(name):
    made = make(name, SINGLE)
    if "binary-gru" in name:
        out = made(X.bfloat16(), UNSORTED)
        assert out.dtype == HALF
        torch.testing.assert_close(out.double(), make(name)(X, UNSORTED), rtol=0.15, atol=0.15)
    else:
        with pytest.raises(ValueError, match=r"torch.bfloat16, .*; give x\.float\(\), or use mod"):
            made(X.bfloat16(), UNSORTED)


@pytest.mark.parametrize("dtype", [DOUBLE, SINGLE, HALF, torch.int64])
def test_what_has_no_parameters_takes_any_type(dtype):
    x = X.to(dtype)
    expected = torch.stack([x[group == UNSORTED].sum(0) for group in range(7)])
    exact = LCMAggregation(CHANNELS, algebra.Sum())(x, UNSORTED)
    assert exact.dtype == dtype
    torch.testing.assert_close(exact, expected, rtol=0.02, atol=0.02)


def test_a_projection_may_make_the_type_that_is_wanted():
    table = nn.Embedding(10, CHANNELS)
    module = LCMAggregation(CHANNELS, project=table, eval_bracketing="carry").eval()
    numbers = torch.arange(6)
    plain = LCMAggregation(CHANNELS, module.operator, eval_bracketing="carry").eval()
    assert torch.equal(module(numbers, dim=0), plain(table(numbers), dim=0))
