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

from treefold.kernels.compiling import compiled

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


@compiled
def _gates(own, other, bias, gates):
    for c in range(gates.size):
        gates[c] = sigmoid(own[c] + other[c] + bias[c])


@compiled
def _new(own, bias, reset, hidden_new, new):
    for c in range(new.size):
        new[c] = tanh(own[c] + bias[c] + reset[c] * hidden_new[c])


@compiled
def _sum(x, y, out):
    for c in range(out.size):
        out[c] = x[c] + y[c]


@compiled
def gates_of(from_x, from_hidden, bias, cell):
    """Write what a cell keeps, from the projections of its input and of its hidden state."""
    n = from_x.size // 3
    reset, new, hidden_new = cell[:n], cell[2 * n : 3 * n], cell[3 * n :]
    _gates(from_x[: 2 * n], from_hidden[: 2 * n], bias[: 2 * n], cell[: 2 * n])
    _sum(from_hidden[2 * n :], bias[3 * n :], hidden_new)
    _new(from_x[2 * n :], bias[2 * n : 3 * n], reset, hidden_new, new)


@compiled
def _to_update(grad, share, x, new, update, out):
    for c in range(out.size):
        out[c] = share * grad[c] * (_ONE - update[c]) * update[c] * (x[c] - new[c])


@compiled
def _to_new(grad, share, update, new, out):
    for c in range(out.size):
        out[c] = share * grad[c] * (_ONE - update[c]) * (_ONE - new[c] * new[c])


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
def _add_product(x, share, y, out):
    for c in range(out.size):
        out[c] += share * x[c] * y[c]


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


@compiled
def gates_backward(grad, share, hidden, cell, grad_hidden, to_x, to_hidden, grad_bias):
    """From a share of `grad` to the projections of the cell's input and of its hidden state.

    Those are written; what reaches the hidden state directly, and the biases, is added.
    """
    n = grad.size
    reset, update = cell[:n], cell[n : 2 * n]
    new, hidden_new = cell[2 * n : 3 * n], cell[3 * n :]
    to_new, to_hidden_new = to_x[2 * n :], to_hidden[2 * n :]
    _add_product(grad, share, update, grad_hidden)
    _to_update(grad, share, hidden, new, update, to_x[n : 2 * n])
    _to_new(grad, share, update, new, to_new)
    _to_hidden_new(to_new, reset, to_hidden_new, grad_bias[3 * n :])
    _to_reset(to_hidden_new, hidden_new, reset, to_x[:n])
    copy(to_x[: 2 * n], to_hidden[: 2 * n])
    add(to_x, grad_bias[: 3 * n])
