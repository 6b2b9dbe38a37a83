"""Multiplications that compiled loops call: all three, of matrices with any number of rows."""

import numpy as np
import pytest

pytest.importorskip("numba")
from treefold.operators.kernels import blas

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("num_rows", [0, 1, 7])
@pytest.mark.parametrize("inner", [1, 3])
def test_they_multiply_as_numpy_does(num_rows, inner):
    rows, weight, grad = normal(num_rows, inner, 5), normal(30, 5), normal(num_rows, inner, 30)
    out = np.full((num_rows, inner, 30), np.nan, np.float32)
    blas.project(rows, weight, out)
    np.testing.assert_allclose(out, rows @ weight.T, rtol=1e-5, atol=1e-5)

    wider = np.concatenate([normal(num_rows, inner, 4), grad, normal(num_rows, inner, 1)], -1)
    to_rows, to_weight = np.ones_like(rows), np.ones_like(weight)  # what is there stays
    blas.add_to_rows(wider, 4, weight, to_rows)
    blas.add_to_weight(wider, 4, rows, to_weight, False)
    np.testing.assert_allclose(to_rows, 1 + grad @ weight, rtol=1e-5, atol=1e-4)
    expected = 1 + np.einsum("nim,nic->mc", grad, rows)
    np.testing.assert_allclose(to_weight, expected, rtol=1e-5, atol=1e-4)
    to_weight[:] = np.nan
    blas.add_to_weight(wider, 4, rows, to_weight, True)
    np.testing.assert_allclose(to_weight, expected - 1, rtol=1e-5, atol=1e-4)
