"""Binary-GRU's gates and their gradients, compiled: one pass over memory for everything.

Arrays are float32 and contiguous, with the same axes as in `operators.binary_gru_kernel`, whose
torch calls these loops stand in for, except that the last two axes of projections and of what is
kept are one. Row i's projections are `projections[where[i]]`.
"""

import numpy as np

from treefold.kernels.compiling import compiled, in_place
from treefold.kernels.gru_cell import add, gates_backward, gates_of, sigmoid, tanh

_HALF = np.float32(0.5)


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
                gates_of(own[: 3 * n], other[3 * n :], bias, kept[row, i])
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


@in_place
def _combine_width(projections, where, bias, rows, out, start, stop, n):
    for pair in range(start, stop):
        for i in range(out.shape[1]):
            from_a, from_b = projections[where[2 * pair], i], projections[where[2 * pair + 1], i]
            a, b, to = rows[2 * pair, i], rows[2 * pair + 1, i], out[pair, i]
            for c in range(n):
                first_reset = sigmoid(from_a[c] + from_b[3 * n + c] + bias[c])
                second_reset = sigmoid(from_b[c] + from_a[3 * n + c] + bias[c])
                first_update = sigmoid(from_a[n + c] + from_b[4 * n + c] + bias[n + c])
                second_update = sigmoid(from_b[n + c] + from_a[4 * n + c] + bias[n + c])
                first_hidden = first_reset * (from_b[5 * n + c] + bias[3 * n + c])
                second_hidden = second_reset * (from_a[5 * n + c] + bias[3 * n + c])
                first = tanh(from_a[2 * n + c] + bias[2 * n + c] + first_hidden)
                second = tanh(from_b[2 * n + c] + bias[2 * n + c] + second_hidden)
                first += first_update * (b[c] - first)
                second += second_update * (a[c] - second)
                to[c] = _HALF * (first + second)


@compiled
def combine_finally(projections, where, bias, rows, out, start, stop):
    """What `combine` does where no gradient is to come, in one loop per pair.

    Loops of a width that the compiler knows take a third less time at 32 channels.
    """
    n = out.shape[2]
    if n == 16:
        _combine_width(projections, where, bias, rows, out, start, stop, 16)
    elif n == 32:
        _combine_width(projections, where, bias, rows, out, start, stop, 32)
    elif n == 64:
        _combine_width(projections, where, bias, rows, out, start, stop, 64)
    elif n == 128:
        _combine_width(projections, where, bias, rows, out, start, stop, 128)
    else:
        _combine_width(projections, where, bias, rows, out, start, stop, n)


@compiled
def combine_backward(
    grad, rows, kept, grad_rows, grad_projections, where, adds, grad_bias, start, stop
):
    """Add to `grad_rows` and `grad_bias`; write `grad_projections`, or add to them."""
    n = grad.shape[2]
    scratch = np.empty((2, grad_projections.shape[2]), np.float32)
    for pair in range(start, stop):
        a, b = 2 * pair, 2 * pair + 1
        for i in range(grad.shape[1]):
            to_a, to_b = grad_projections[where[a], i], grad_projections[where[b], i]
            into_a, into_b = (scratch[0], scratch[1]) if adds else (to_a, to_b)
            first, second, to_out = kept[a, i], kept[b, i], grad[pair, i]
            gates_backward(
                *(to_out, _HALF, rows[b, i], first, grad_rows[b, i]),
                *(into_a[: 3 * n], into_b[3 * n :], grad_bias),
            )
            gates_backward(
                *(to_out, _HALF, rows[a, i], second, grad_rows[a, i]),
                *(into_b[: 3 * n], into_a[3 * n :], grad_bias),
            )
            if adds:
                add(into_a, to_a)
                add(into_b, to_b)
