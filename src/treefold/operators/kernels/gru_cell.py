"""One GRU cell and its gradients, compiled, for one row at a time.

A row's projections come in the order reset, update, new. What the gradients need is kept in the
order reset, update, new, hidden new, and biases come in the same order: those of reset and update
are of both sides together.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from treefold.operators.kernels.compiling import compiled, in_place

_ONE, _TWO = np.float32(1), np.float32(2)
_LOG2_E, _MAX_POWER = np.float32(math.log2(math.e)), np.float32(126)
_BIAS, _MANTISSA_BITS = np.int32(127), np.int32(23)  # of a float32
# 2^f = 1 + f P(f) for f in [-½, ½], to 9e-8 of it: the best polynomial of its degree.
_P0, _P1, _P2, _P3, _P4 = (
    np.float32(each) for each in (0.693147, 0.24022242, 0.055507336, 0.009671513, 0.0013264727)
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
def sigmoid(x):
    """1 / (1 + exp(-x)), to a unit in the last place; NaN stays NaN."""
    power = -x * _LOG2_E
    power = -_MAX_POWER if power < -_MAX_POWER else power  # min and max would lose NaN
    power = _MAX_POWER if power > _MAX_POWER else power
    whole = np.rint(power)
    f = power - whole
    series = _P0 + f * (_P1 + f * (_P2 + f * (_P3 + f * _P4)))
    exponential = (_ONE + f * series) * _as_float((np.int32(whole) + _BIAS) << _MANTISSA_BITS)
    return _ONE / (_ONE + exponential)


@compiled
def tanh(x):
    """The hyperbolic tangent, as 2 σ(2x) - 1."""
    return _TWO * sigmoid(_TWO * x) - _ONE


@in_place
def gates_of(from_x, from_hidden, bias, cell, n):
    """Write what a cell of `n` channels keeps, from the projections of its input and its state."""
    for c in range(n):
        reset = sigmoid(from_x[c] + from_hidden[c] + bias[c])
        hidden_new = from_hidden[2 * n + c] + bias[3 * n + c]
        cell[c] = reset
        cell[n + c] = sigmoid(from_x[n + c] + from_hidden[n + c] + bias[n + c])
        cell[2 * n + c] = tanh(from_x[2 * n + c] + bias[2 * n + c] + reset * hidden_new)
        cell[3 * n + c] = hidden_new


@in_place
def gates_backward(grad, share, hidden, cell, grad_hidden, to_x, to_hidden, grad_bias, n):
    """From a share of `grad` to the projections of the cell's input and of its hidden state.

    Those are written; what reaches the hidden state directly, and the biases, is added.
    """
    for c in range(n):
        reset, update, new = cell[c], cell[n + c], cell[2 * n + c]
        to_mix = share * grad[c] * (_ONE - update)
        to_update = to_mix * update * (hidden[c] - new)
        to_new = to_mix * (_ONE - new * new)
        to_hidden_new = to_new * reset
        to_reset = to_hidden_new * cell[3 * n + c] * (_ONE - reset)
        to_x[c] = to_reset
        to_x[n + c] = to_update
        to_x[2 * n + c] = to_new
        to_hidden[c] = to_reset
        to_hidden[n + c] = to_update
        to_hidden[2 * n + c] = to_hidden_new
    for c in range(n):
        grad_hidden[c] += share * grad[c] * cell[n + c]
    for c in range(n):
        grad_bias[c] += to_x[c]
        grad_bias[n + c] += to_x[n + c]
        grad_bias[2 * n + c] += to_x[2 * n + c]
        grad_bias[3 * n + c] += to_hidden[2 * n + c]


@compiled
def copy(x, out):
    """Write `x` into `out`."""
    for c in range(out.size):
        out[c] = x[c]


@compiled
def add(x, out):
    """Add `x` to `out`."""
    for c in range(out.size):
        out[c] += x[c]
