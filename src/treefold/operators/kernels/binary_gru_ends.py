"""Both ends of a Binary-GRU fold, compiled: rows to leaves, roots to groups, and all the way back.

Leaf i is row `leaves[i]` of the input. Group g ends up at `places[g]` among the states, or nowhere
if that is -1: then it is the identity. Work is cut into parts, each done by one thread.
"""

from typing import NamedTuple

import numpy as np
from numba import prange

from treefold.operators.kernels.compiling import HALF_AXES, compiled, on_threads, share
from treefold.operators.kernels.gru_bias import bias_gradient
from treefold.operators.kernels.gru_cell import add, copy
from treefold.operators.kernels.halves import pack_rows


class Cell(NamedTuple):
    """The parameters: a GRU cell's, and the identity."""

    weight_ih: np.ndarray
    weight_hh: np.ndarray
    bias_ih: np.ndarray
    bias_hh: np.ndarray
    identity: np.ndarray


class Gradients(NamedTuple):
    """Of the input, of both sides' weights and biases, and of the identity."""

    x: np.ndarray
    weight: np.ndarray
    """Stacked: `[6 channels, channels]`."""
    bias: np.ndarray
    """`[2, 3 channels]`."""
    identity: np.ndarray


class Ends(NamedTuple):
    """Where leaves come from, and where groups are."""

    leaves: np.ndarray
    places: np.ndarray
    is_permutation: bool
    """Whether every row of the input is one leaf."""


@compiled
def _flat(rows):
    """With one axis for all that a row has."""
    return rows.reshape(len(rows), rows.shape[1] * rows.shape[2])


@compiled
def _begin(part, num_parts, x, cell, leaves, weight, precision, states):
    """Stack a share of the weights, and fetch a share of the leaves."""
    m = len(cell.weight_ih)
    if precision.ndim == HALF_AXES:
        first, last = share(part, num_parts, m // 2)
        for i in range(2 * first, 2 * last, 2):
            pack_rows(cell.weight_ih[i : i + 2], i, weight)
            pack_rows(cell.weight_hh[i : i + 2], m + i, weight)
    else:
        first, last = share(part, num_parts, m)
        for i in range(first, last):
            copy(cell.weight_ih[i], weight[i])
            copy(cell.weight_hh[i], weight[m + i])
    rows, out = _flat(x), _flat(states)
    first, last = share(part, num_parts, leaves.size)
    for i in range(first, last):
        copy(rows[leaves[i]], out[i])


@on_threads
def _begin_in_parts(num_parts, x, cell, leaves, weight, precision, states):
    for part in prange(num_parts):
        _begin(part, num_parts, x, cell, leaves, weight, precision, states)


@compiled
def begin(num_parts, x, cell, leaves, weight, precision, states):
    """Stack the weights, or pack them, and fetch the leaves."""
    if num_parts > 1:
        _begin_in_parts(num_parts, x, cell, leaves, weight, precision, states)
    else:
        _begin(0, 1, x, cell, leaves, weight, precision, states)


@compiled
def _give_groups(part, num_parts, states, places, identity, groups):
    first, last = share(part, num_parts, places.size)
    for g in range(first, last):
        for i in range(groups.shape[1]):
            copy(states[places[g], i] if places[g] >= 0 else identity, groups[g, i])


@on_threads
def _give_groups_in_parts(num_parts, states, places, identity, groups):
    for part in prange(num_parts):
        _give_groups(part, num_parts, states, places, identity, groups)


@compiled
def give_groups(num_parts, states, places, identity, groups):
    """Write what every group is."""
    if num_parts > 1:
        _give_groups_in_parts(num_parts, states, places, identity, groups)
    else:
        _give_groups(0, 1, states, places, identity, groups)


@compiled
def _begin_back(part, num_parts, places, grad_groups, grad_nodes, grad_states, grad_x):
    """What reaches a share of the states from outside; a share of the input's gradient is zero."""
    first, last = share(part, num_parts, len(grad_x))
    grad_x[first:last] = 0
    first, last = share(part, num_parts, len(grad_states))
    from_groups, from_nodes, out = _flat(grad_groups), _flat(grad_nodes), _flat(grad_states)
    num_plain = len(grad_states) - len(grad_nodes)
    for i in range(first, last):
        if i < num_plain:
            out[i] = 0
        else:
            copy(from_nodes[i - num_plain], out[i])
    for g in range(len(from_groups)):
        if first <= places[g] < last:
            add(from_groups[g], out[places[g]])


@on_threads
def _begin_back_in_parts(num_parts, places, grad_groups, grad_nodes, grad_states, grad_x):
    for part in prange(num_parts):
        _begin_back(part, num_parts, places, grad_groups, grad_nodes, grad_states, grad_x)


@compiled
def begin_back(num_parts, ends, grad_groups, grad_nodes, grad_states, grads):
    """Write what reaches the states and the identity from outside.

    Groups or nodes without rows have no gradient. The input's is made zero if it is to be added to.
    """
    grad_x = grads.x[:0] if ends.is_permutation else grads.x
    if num_parts > 1:
        _begin_back_in_parts(num_parts, ends.places, grad_groups, grad_nodes, grad_states, grad_x)
    else:
        _begin_back(0, 1, ends.places, grad_groups, grad_nodes, grad_states, grad_x)
    grads.identity[:] = 0
    for g in range(len(grad_groups)):
        if ends.places[g] < 0:
            for i in range(grad_groups.shape[1]):
                add(grad_groups[g, i], grads.identity)


@compiled
def _finish(part, num_parts, ends, grad_states, sums, grad_x):
    """Take a share of the leaves, or of their columns, to the input; add up some weights."""
    first, last = share(part, num_parts, len(sums.weight))
    for weight in sums.other_weights:
        for i in range(first, last):
            add(weight[i], sums.weight[i])
    rows, out = _flat(grad_states), _flat(grad_x)
    if ends.is_permutation:
        first, last = share(part, num_parts, ends.leaves.size)
        for i in range(first, last):
            copy(rows[i], out[ends.leaves[i]])
    else:  # a row may have many leaves
        first, last = share(part, num_parts, out.shape[1])
        for i in range(ends.leaves.size):
            add(rows[i, first:last], out[ends.leaves[i], first:last])


@on_threads
def _finish_in_parts(num_parts, ends, grad_states, sums, grad_x):
    for part in prange(num_parts):
        _finish(part, num_parts, ends, grad_states, sums, grad_x)


@compiled
def finish(num_parts, ends, grad_states, sums, grads):
    """Take the gradients of leaves to the input, and those of all parts to the parameters."""
    if num_parts > 1:
        _finish_in_parts(num_parts, ends, grad_states, sums, grads.x)
    else:
        _finish(0, 1, ends, grad_states, sums, grads.x)
    for part in range(1, num_parts):
        add(sums.bias[part], sums.bias[0])
    bias_gradient(sums.bias[0], grads.bias)
