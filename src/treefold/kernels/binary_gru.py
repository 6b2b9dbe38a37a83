"""Binary-GRU's gates and their gradients, compiled: one pass over memory for everything.

Arrays are float32 and contiguous, with the same axes as in `operators.binary_gru_kernel`, whose
torch calls these loops stand in for, except that the last two axes of projections and of what is
kept are one. Row i's projections are `projections[where[i]]`.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from treefold.kernels.compiling import compiled

_HALF, _ONE, _TWO = np.float32(0.5), np.float32(1), np.float32(2)
_LOG2_E, _MAX_POWER = np.float32(math.log2(math.e)), np.float32(126)
_BIAS, _MANTISSA_BITS = np.int32(127), np.int32(23)  # of a float32
# 2^f = exp(f ln 2) for f in [-½, ½]: eight terms are exact to rounding.
_P1, _P2, _P3, _P4, _P5, _P6, _P7 = (
    np.float32(math.log(2) ** i / math.factorial(i)) for i in range(1, 8)
)

# Loops are kept to a few arrays each, so that the compiler can prove, or check quickly, that they
# do not overlap.


@intrinsic
def _as_float(context, bits):
    """The float32 that has these bits."""
    return types.float32(
        types.int32
    ), lambda _context, builder, _signature, arguments: builder.bitcast(
        arguments[0], ir.FloatType()
    )


@compiled
def _sigmoid(x):
    power = min(max(-x * _LOG2_E, -_MAX_POWER), _MAX_POWER)
    whole = np.rint(power)
    f = power - whole
    series = _P1 + f * (_P2 + f * (_P3 + f * (_P4 + f * (_P5 + f * (_P6 + f * _P7)))))
    exponential = (_ONE + f * series) * _as_float((np.int32(whole) + _BIAS) << _MANTISSA_BITS)
    return _ONE / (_ONE + exponential) if x == x else x  # NaN stays NaN


@compiled
def _tanh(x):
    return _TWO * _sigmoid(_TWO * x) - _ONE


@compiled
def _gates(own, other, bias, gates):
    for c in range(gates.size):
        gates[c] = _sigmoid(own[c] + other[c] + bias[c])


@compiled
def _new(own, bias, reset, hidden_new, new):
    for c in range(new.size):
        new[c] = _tanh(own[c] + bias[c] + reset[c] * hidden_new[c])


@compiled
def _sum(x, y, out):
    for c in range(out.size):
        out[c] = x[c] + y[c]


@compiled
def _mean(first_new, first_update, b, second_new, second_update, a, out):
    for c in range(out.size):
        first = first_new[c] + first_update[c] * (b[c] - first_new[c])
        second = second_new[c] + second_update[c] * (a[c] - second_new[c])
        out[c] = _HALF * (first + second)


@compiled
def combine(projections, where, bias, rows, out, kept, start, stop):
    """Write a ⊕ b into `out`, and what its gradient needs into `kept`, from one pair to another.

    `bias` is that of reset and update (both sides together), new and hidden new.
    """
    n = out.shape[2]
    for pair in range(start, stop):
        for i in range(out.shape[1]):
            for row in range(2 * pair, 2 * pair + 2):
                own, other = projections[where[row], i], projections[where[row ^ 1], i]
                cell = kept[row, i]
                reset, new, hidden_new = cell[:n], cell[2 * n : 3 * n], cell[3 * n :]
                _gates(own[: 2 * n], other[3 * n : 5 * n], bias[: 2 * n], cell[: 2 * n])
                _sum(other[5 * n :], bias[3 * n :], hidden_new)
                _new(own[2 * n : 3 * n], bias[2 * n : 3 * n], reset, hidden_new, new)
            first, second = kept[2 * pair, i], kept[2 * pair + 1, i]
            _mean(
                first[2 * n : 3 * n],
                first[n : 2 * n],
                rows[2 * pair + 1, i],
                second[2 * n : 3 * n],
                second[n : 2 * n],
                rows[2 * pair, i],
                out[pair, i],
            )


@compiled
def _of_pair(from_a, from_b, bias, a, b, out):
    n = out.size
    for c in range(n):
        first_reset = _sigmoid(from_a[c] + from_b[3 * n + c] + bias[c])
        second_reset = _sigmoid(from_b[c] + from_a[3 * n + c] + bias[c])
        first_update = _sigmoid(from_a[n + c] + from_b[4 * n + c] + bias[n + c])
        second_update = _sigmoid(from_b[n + c] + from_a[4 * n + c] + bias[n + c])
        first_hidden = first_reset * (from_b[5 * n + c] + bias[3 * n + c])
        second_hidden = second_reset * (from_a[5 * n + c] + bias[3 * n + c])
        first = _tanh(from_a[2 * n + c] + bias[2 * n + c] + first_hidden)
        second = _tanh(from_b[2 * n + c] + bias[2 * n + c] + second_hidden)
        first += first_update * (b[c] - first)
        second += second_update * (a[c] - second)
        out[c] = _HALF * (first + second)


@compiled
def combine_finally(projections, where, bias, rows, out, start, stop):
    """What `combine` does where no gradient is to come, in one loop per pair."""
    for pair in range(start, stop):
        first, second = where[2 * pair], where[2 * pair + 1]
        for i in range(out.shape[1]):
            a, b = rows[2 * pair, i], rows[2 * pair + 1, i]
            _of_pair(projections[first, i], projections[second, i], bias, a, b, out[pair, i])


@compiled
def _to_update(grad, x, new, update, out):
    for c in range(out.size):
        out[c] = _HALF * grad[c] * (_ONE - update[c]) * update[c] * (x[c] - new[c])


@compiled
def _to_new(grad, update, new, out):
    for c in range(out.size):
        out[c] = _HALF * grad[c] * (_ONE - update[c]) * (_ONE - new[c] * new[c])


@compiled
def _to_hidden_new(to_new, reset, out, total):
    for c in range(out.size):
        found = to_new[c] * reset[c]
        out[c] = found
        total[c] += found


@compiled
def _to_reset(to_hidden_new, hidden_new, reset, out):
    for c in range(out.size):
        out[c] = to_hidden_new[c] * hidden_new[c] * (_ONE - reset[c])


@compiled
def _add_half_product(x, y, out):
    for c in range(out.size):
        out[c] += _HALF * x[c] * y[c]


@compiled
def _copy(x, out):
    for c in range(out.size):
        out[c] = x[c]


@compiled
def _add(x, out):
    for c in range(out.size):
        out[c] += x[c]


@compiled
def _cell_backward(grad, x, cell, grad_x, to_own, to_other, grad_bias):
    """One of a pair's two cells: its gradients by both rows' projections, and by `x` itself."""
    n = grad.size
    reset, update = cell[:n], cell[n : 2 * n]
    new, hidden_new = cell[2 * n : 3 * n], cell[3 * n :]
    to_new, to_hidden_new = to_own[2 * n : 3 * n], to_other[5 * n :]
    _add_half_product(grad, update, grad_x)
    _to_update(grad, x, new, update, to_own[n : 2 * n])
    _to_new(grad, update, new, to_new)
    _to_hidden_new(to_new, reset, to_hidden_new, grad_bias[3 * n :])
    _to_reset(to_hidden_new, hidden_new, reset, to_own[:n])
    _copy(to_own[: 2 * n], to_other[3 * n : 5 * n])
    _add(to_own[: 3 * n], grad_bias[: 3 * n])


@compiled
def combine_backward(
    grad, rows, kept, grad_rows, grad_projections, where, adds, grad_bias, start, stop
):
    """Add to `grad_rows` and `grad_bias`; write `grad_projections`, or add to them."""
    scratch = np.empty((2, grad_projections.shape[2]), np.float32)
    for pair in range(start, stop):
        a, b = 2 * pair, 2 * pair + 1
        for i in range(grad.shape[1]):
            to_a, to_b = grad_projections[where[a], i], grad_projections[where[b], i]
            into_a, into_b = (scratch[0], scratch[1]) if adds else (to_a, to_b)
            first, second, to_out = kept[a, i], kept[b, i], grad[pair, i]
            _cell_backward(to_out, rows[b, i], first, grad_rows[b, i], into_a, into_b, grad_bias)
            _cell_backward(to_out, rows[a, i], second, grad_rows[a, i], into_b, into_a, grad_bias)
            if adds:
                _add(into_a, to_a)
                _add(into_b, to_b)
