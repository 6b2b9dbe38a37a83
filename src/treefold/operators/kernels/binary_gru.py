"""Binary-GRU's gates and their gradients, compiled: one pass over memory for everything.

Arrays are float32 and contiguous, with the same axes as in `operators.binary_gru_kernel`, whose
torch calls these loops stand in for, except that the last two axes of projections and of what is
kept are one. Row i's projections are `projections[where[i]]`.

Where the compiler knows how long a loop is, it takes down to a third of the time. An array's number
of axes is part of its type, so `width`, an array that is never read, tells the number of channels.
"""

import numpy as np

from treefold.operators.kernels.compiling import compiled, num_channels
from treefold.operators.kernels.gru_cell import add, gates_backward, gates_of, sigmoid, tanh

_HALF = np.float32(0.5)


@compiled
def combine(projections, where, bias, rows, out, kept, start, stop, width):
    """Write a ⊕ b into `out`, and what its gradient needs into `kept`, from one pair to another.

    `bias` is that of reset and update (both sides together), new and hidden new.
    """
    n = num_channels(width, out)
    for pair in range(start, stop):
        for i in range(out.shape[1]):
            from_a, from_b = projections[where[2 * pair], i], projections[where[2 * pair + 1], i]
            first, second, to = kept[2 * pair, i], kept[2 * pair + 1, i], out[pair, i]
            gates_of(from_a, from_b[3 * n :], bias, first, n)
            gates_of(from_b, from_a[3 * n :], bias, second, n)
            a, b = rows[2 * pair, i], rows[2 * pair + 1, i]
            for c in range(n):
                from_first = first[2 * n + c] + first[n + c] * (b[c] - first[2 * n + c])
                from_second = second[2 * n + c] + second[n + c] * (a[c] - second[2 * n + c])
                to[c] = _HALF * (from_first + from_second)


@compiled
def combine_finally(projections, where, bias, rows, out, start, stop, width):
    """What `combine` does where no gradient is to come, in one loop per pair."""
    n = num_channels(width, out)
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
def combine_backward(grad, rows, kept, grad_rows, into, where, adds, grad_bias, start, stop, width):
    """Add to `grad_rows` and `grad_bias`; write the gradients of projections, or add to them."""
    n = num_channels(width, grad)
    scratch = np.empty((2, into.shape[2]), np.float32)
    for pair in range(start, stop):
        a, b = 2 * pair, 2 * pair + 1
        for i in range(grad.shape[1]):
            to_a, to_b, to_out = into[where[a], i], into[where[b], i], grad[pair, i]
            into_a, into_b = (scratch[0], scratch[1]) if adds else (to_a, to_b)
            first, row, to_row = kept[a, i], rows[b, i], grad_rows[b, i]
            gates_backward(to_out, _HALF, row, first, to_row, into_a, into_b[3 * n :], grad_bias, n)
            second, row, to_row = kept[b, i], rows[a, i], grad_rows[a, i]
            gates_backward(
                to_out, _HALF, row, second, to_row, into_b, into_a[3 * n :], grad_bias, n
            )
            if adds:
                add(into_a, to_a)
                add(into_b, to_b)
