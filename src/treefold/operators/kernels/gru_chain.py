"""A GRU along packed rows, compiled: all steps forward, and all steps backward.

Rows are `[n, channels]`, step after step; step t has `batch_sizes[t]` of them, one for each of the
first groups. Groups are cut into parts, `cuts[p]` to `cuts[p + 1]`, and each part is run from its
first step to its last by one thread: no group ever waits for another.
"""

import numpy as np
from numba import prange

from treefold.operators.kernels.blas import add_to_rows, project, set_threads
from treefold.operators.kernels.compiling import compiled, on_threads
from treefold.operators.kernels.gru_cell import copy, gates_backward, gates_of

_ONE = np.float32(1)


@compiled
def _last_state(cell, hidden, out):
    n = out.size
    update, new = cell[n : 2 * n], cell[2 * n : 3 * n]
    for c in range(n):
        out[c] = new[c] + update[c] * (hidden[c] - new[c])


@compiled
def _run(low, high, batch_sizes, from_rows, start, weight, bias, states, kept, room):
    """Run along the groups from `low` to `high`; `room` is for the projections of their states."""
    before, first = 0, 0
    for step in range(batch_sizes.size):
        stop = min(high, batch_sizes[step])
        if stop <= low:
            return
        hidden = start[low:stop] if step == 0 else states[before + low : before + stop]
        project(hidden, weight, room[low:stop])
        for i in range(stop - low):
            row = first + low + i
            gates_of(from_rows[row], room[low + i], bias, kept[row], start.shape[1])
            _last_state(kept[row], hidden[i], states[row])
        before, first = first, first + batch_sizes[step]


@on_threads
def _run_in_parts(cuts, batch_sizes, from_rows, start, weight, bias, states, kept, room):
    for part in prange(cuts.size - 1):
        set_threads(1)
        low, high = cuts[part], cuts[part + 1]
        _run(low, high, batch_sizes, from_rows, start, weight, bias, states, kept, room)


@compiled
def run(cuts, batch_sizes, from_rows, start, weight, bias, states, kept, room):
    """Write the state after every row, and what the gradients need."""
    before = set_threads(1)
    if cuts.size > 2:
        _run_in_parts(cuts, batch_sizes, from_rows, start, weight, bias, states, kept, room)
    else:
        _run(0, len(start), batch_sizes, from_rows, start, weight, bias, states, kept, room)
    set_threads(before)


@compiled
def _run_back(low, high, batch_sizes, weight, start, states, kept, grads, earlier, sums):
    """Back along the groups from `low` to `high`.

    `grads` are those of states, of the start and of projections (first the rows', then the
    states'); `earlier` gets the state before every row.
    """
    grad_states, grad_start, to_projections = grads
    channels = start.shape[1]
    first = len(states)
    for step in range(batch_sizes.size - 1, -1, -1):
        first -= batch_sizes[step]
        stop = min(high, batch_sizes[step])
        if stop <= low:
            continue
        before = first - (batch_sizes[step - 1] if step > 0 else 0)
        hidden = start[low:stop] if step == 0 else states[before + low : before + stop]
        to_hidden = grad_start[low:stop]
        if step > 0:
            to_hidden = grad_states[before + low : before + stop]
        for i in range(stop - low):
            row = first + low + i
            copy(hidden[i], earlier[row])
            grad, cell, to_row = grad_states[row], kept[row], to_projections[row]
            to_x, to_state = to_row[: 3 * channels], to_row[3 * channels :]
            gates_backward(
                grad, _ONE, hidden[i], cell, to_hidden[i], to_x, to_state, sums, channels
            )
        to_step = to_projections[first + low : first + stop]
        add_to_rows(to_step, 3 * channels, weight, to_hidden)


@on_threads
def _run_back_in_parts(cuts, batch_sizes, weight, start, states, kept, grads, earlier, sums):
    for part in prange(cuts.size - 1):
        set_threads(1)
        low, high = cuts[part], cuts[part + 1]
        _run_back(
            *(low, high, batch_sizes, weight, start, states, kept, grads, earlier, sums[part])
        )


@compiled
def run_back(cuts, batch_sizes, weight, start, states, kept, grads, earlier, sums):
    """Add to the gradients of states, start and biases; write those of all projections."""
    before = set_threads(1)
    if cuts.size > 2:
        _run_back_in_parts(cuts, batch_sizes, weight, start, states, kept, grads, earlier, sums)
    else:
        high = len(start)
        _run_back(0, high, batch_sizes, weight, start, states, kept, grads, earlier, sums[0])
    set_threads(before)
