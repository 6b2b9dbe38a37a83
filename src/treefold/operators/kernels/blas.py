"""Matrix multiplication for compiled loops: that of torch's own library.

Arrays are float32 and contiguous. The last axis is the columns of a matrix, whose rows are all the
others together.
"""

import ctypes

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address

from treefold.operators.kernels.compiling import compiled
from treefold.operators.kernels.torch_library import address_in_torch

_AS_IT_IS, _TRANSPOSED = np.uint8(ord("N")), np.uint8(ord("T"))


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
def _set_nothing(_: int) -> int:
    return 0


_multiplication = address_in_torch("sgemm_")
_number_of_threads = address_in_torch("MKL_Set_Num_Threads_Local")

CAN_BE_ALONE = _multiplication is not None and _number_of_threads is not None
"""Whether a thread can be told to multiply by itself, without help from others."""

llvmlite.binding.add_symbol(
    "treefold_sgemm",
    _multiplication or get_cython_function_address("scipy.linalg.cython_blas", "sgemm"),
)
llvmlite.binding.add_symbol(
    "treefold_set_threads",
    _number_of_threads or ctypes.cast(_set_nothing, ctypes.c_void_p).value,
)

# Thirteen addresses: two letters, three sizes, a factor, two matrices with the distances of their
# columns, a factor, the outcome and the distance of its columns.
_sgemm = types.ExternalFunction("treefold_sgemm", types.void(*[types.uintp] * 13))
set_threads = types.ExternalFunction("treefold_set_threads", types.int32(types.int32))
"""How many threads multiply what this thread asks for, 0 for torch's number; returns the last."""


@compiled
def _multiply(left, left_mode, right, right_mode, columns, rows, inner, out, beta):
    """Write `right` times `left` into `out`, or add it: BLAS sees all of them transposed.

    Each comes as (address, distance of its rows).
    """
    letters, numbers = np.empty(2, np.uint8), np.empty(6, np.int32)
    letters[0], letters[1] = left_mode, right_mode
    numbers[0], numbers[1], numbers[2] = columns, rows, inner
    numbers[3], numbers[4], numbers[5] = left[1], right[1], out[1]
    factors = np.array([1, beta], np.float32)
    letter, number, factor = letters.ctypes.data, numbers.ctypes.data, factors.ctypes.data
    _sgemm(
        *(letter, letter + 1, number, number + 4, number + 8, factor),
        *(left[0], number + 12, right[0], number + 16),
        *(factor + 4, out[0], number + 20),
    )
    return letters[0] + numbers[0] + factors[0]  # all three live until here


@compiled
def _matrix(array, first_column):
    return array.ctypes.data + 4 * first_column, array.shape[-1]


@compiled
def project(rows, weight, out):
    """Write `rows` [n, c] times `weight` [m, c], transposed, into `out` [n, m]."""
    (m, c), n = weight.shape, rows.size // weight.shape[1]
    if n:
        weight_, rows_, out_ = _matrix(weight, 0), _matrix(rows, 0), _matrix(out, 0)
        _multiply(weight_, _TRANSPOSED, rows_, _AS_IT_IS, m, n, c, out_, 0)


@compiled
def add_to_rows(grad, first_column, weight, out):
    """Add m columns of `grad` [n, ...] times `weight` [m, c] to `out` [n, c]."""
    (m, c), n = weight.shape, grad.size // grad.shape[-1]
    if n:
        weight_, grad_, out_ = _matrix(weight, 0), _matrix(grad, first_column), _matrix(out, 0)
        _multiply(weight_, _AS_IT_IS, grad_, _AS_IT_IS, c, n, m, out_, 1)


@compiled
def add_to_weight(grad, first_column, rows, out, is_blank):
    """Add m columns of `grad` [n, ...], transposed, times `rows` [n, c] to `out` [m, c].

    What is in a blank `out` counts as zero.
    """
    (m, c), n = out.shape, grad.size // grad.shape[-1]
    if n:
        rows_, grad_, out_ = _matrix(rows, 0), _matrix(grad, first_column), _matrix(out, 0)
        _multiply(rows_, _AS_IT_IS, grad_, _TRANSPOSED, c, m, n, out_, 0 if is_blank else 1)
    elif is_blank:
        out[:] = 0
