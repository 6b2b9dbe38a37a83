"""The levels of Binary-GRU's trees, compiled: all runs forward, and all backward.

States are `[leaves, then nodes, inner, channels]`. A tree is (runs, children, table rows): a run is
(first node, number of pairs, first row), and its pairs are neighbours from that row on or, if that
is -1, the `children` of its nodes. Leaf i is row `table_rows[i]` of a table; without a table,
`table_rows` is empty, and leaves are treated as nodes are.

The pairs of a run are cut into parts, each done by one thread from end to end.
"""

from typing import NamedTuple

import numpy as np
from numba import prange

from treefold.kernels.binary_gru import combine, combine_backward, combine_finally
from treefold.kernels.blas import set_threads
from treefold.kernels.compiling import compiled, on_threads, share
from treefold.kernels.multiplying import add_to_rows, add_to_weight, project

MIN_NUMBERS = 1 << 11
"""How many numbers of a run's outcome are worth another thread."""


class Tree(NamedTuple):
    """Who meets whom, as above."""

    runs: np.ndarray
    children: np.ndarray
    table_rows: np.ndarray


@compiled
def _num_parts(run, states, max_parts):
    return max(1, min(max_parts, run[1] * states[0].size // MIN_NUMBERS))


@compiled
def _copy(x, out):
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            out[i, c] = x[i, c]


@compiled
def _add(x, out):
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            out[i, c] += x[i, c]


@compiled
def _flat(buffer):
    """All parts' projections in a row."""
    return buffer.reshape(buffer.shape[0] * buffer.shape[1], buffer.shape[2], buffer.shape[3])


@compiled
def _address(run, children, i):
    """Where row i of a run lies among the states."""
    return run[2] + i if run[2] >= 0 else children[run[0] + i // 2, i % 2]


@compiled
def _rows(states, run, room):
    """Where the rows of a run are: among the states if they are neighbours, else in the room."""
    num_rows, start = 2 * run[1], run[2]
    return states[start : start + num_rows] if start >= 0 else room[:num_rows]


@compiled
def _nodes(states, run, children):
    first = len(states) - len(children) + run[0]
    return states[first : first + run[1]]


@compiled
def _gather(states, run, children, rows, start, stop):
    if run[2] < 0:
        for i in range(start, stop):
            _copy(states[_address(run, children, i)], rows[i])


@compiled
def _find_projections(tree, run, of_table, first_own, rooms, start, stop):
    """Write where the projections of some rows are; return how many are not the table's."""
    if tree.table_rows.size == 0:
        for i in range(stop - start):
            rooms.where[start + i], rooms.own[start + i] = first_own + i, start + i
        return stop - start
    num_own = 0
    for i in range(start, stop):
        address = _address(run, tree.children, i)
        if address < tree.table_rows.size:
            rooms.where[i] = of_table + tree.table_rows[address]
        else:
            rooms.where[i] = first_own + num_own
            rooms.own[start + num_own] = i
            num_own += 1
    return num_own


@compiled
def _make(part, num_parts, states, tree, run, table, weight, bias, kept, rooms):
    """Make the nodes of one part of a run; `kept` has no rows if no gradient is to come."""
    first, last = share(part, num_parts, run[1])
    start, stop = 2 * first, 2 * last
    rows = _rows(states, run, rooms.rows[0])
    _gather(states, run, tree.children, rows, start, stop)

    first_own = part * rooms.projections.shape[1] + len(table)
    num_own = _find_projections(tree, run, 0, first_own, rooms, start, stop)
    own_rows = rows[start:stop]
    if num_own < stop - start:
        own_rows = rooms.rows[1][start : start + num_own]
        for i in range(num_own):
            _copy(rows[rooms.own[start + i]], own_rows[i])

    projections = _flat(rooms.projections)
    to_own = projections[first_own : first_own + num_own]
    project(own_rows, weight, to_own, rooms.halves[part])
    nodes = _nodes(states, run, tree.children)
    if len(kept):
        combine(projections, rooms.where, bias, rows, nodes, kept, first, last, rooms.width)
    else:
        combine_finally(projections, rooms.where, bias, rows, nodes, first, last, rooms.width)


@on_threads
def _make_in_parts(num_parts, states, tree, run, table, weight, bias, kept, rooms):
    for part in prange(num_parts):
        set_threads(1)
        _make(part, num_parts, states, tree, run, table, weight, bias, kept, rooms)


@compiled
def _project_table(part, num_parts, table, weight, rooms):
    """Project a share of the table, for all parts."""
    first, last = share(part, num_parts, len(table))
    project(table[first:last], weight, rooms.projections[0][first:last], rooms.halves[part])


@on_threads
def _project_table_in_parts(num_parts, table, weight, rooms):
    for part in prange(num_parts):
        set_threads(1)
        _project_table(part, num_parts, table, weight, rooms)


@compiled
def make_levels(tree, table, kept, bias, rooms, num_threads):
    """Make every node, and keep what the gradients need, if there is room for that.

    Where parts do not multiply on a thread each, `num_threads` multiply together.
    """
    states, weight, max_parts = kept.states, kept.weight, len(rooms.projections)
    before = set_threads(num_threads)
    num_parts = min(max_parts, table.size // MIN_NUMBERS)
    if num_parts > 1:
        _project_table_in_parts(num_parts, table, weight, rooms)
    else:
        _project_table(0, 1, table, weight, rooms)
    for run in tree.runs:
        gates = kept.gates[2 * run[0] : 2 * (run[0] + run[1])]
        num_parts = _num_parts(run, states, max_parts)
        if num_parts > 1:
            _make_in_parts(num_parts, states, tree, run, table, weight, bias, gates, rooms)
        else:
            _make(0, 1, states, tree, run, table, weight, bias, gates, rooms)
    set_threads(before)


@compiled
def _clear_table(part, num_table, rooms):
    rooms.projections[part][:num_table] = 0


@on_threads
def _clear_table_in_parts(num_parts, num_table, rooms):
    for part in prange(num_parts):
        _clear_table(part, num_table, rooms)


@compiled
def _multiply_to_weight(part, num_table, rooms, sums):
    """Let the rows of a part that wait reach the weights' gradient."""
    waiting = sums.num_rows[part]
    grads = rooms.projections[part][num_table : num_table + waiting]
    weight = sums.weight if part == 0 else sums.other_weights[part - 1]
    rows, room = sums.rows[part][:waiting], rooms.halves[part]
    add_to_weight(grads, rows, weight, sums.is_blank[part], room)
    sums.num_rows[part], sums.is_blank[part] = 0, False


@compiled
def _take_back(part, num_parts, states, grad_states, tree, run, table, weight, kept, rooms, sums):
    """Take the gradients of the nodes of one part of a run to its rows."""
    first, last = share(part, num_parts, run[1])
    start, stop = 2 * first, 2 * last
    rows, grad_rows = _rows(states, run, rooms.rows[0]), _rows(grad_states, run, rooms.rows[1])
    _gather(states, run, tree.children, rows, start, stop)
    _gather(grad_states, run, tree.children, grad_rows, start, stop)

    if sums.num_rows[part] + stop - start > sums.rows.shape[1]:
        _multiply_to_weight(part, len(table), rooms, sums)
    waiting = sums.num_rows[part]
    of_table = part * rooms.projections.shape[1]
    first_own = of_table + len(table) + waiting
    num_own = _find_projections(tree, run, of_table, first_own, rooms, start, stop)
    projections = _flat(rooms.projections)
    to_own, adds = projections[first_own : first_own + num_own], num_own < stop - start
    if adds:
        to_own[:] = 0
    grad_nodes = _nodes(grad_states, run, tree.children)
    combine_backward(
        *(grad_nodes, rows, kept, grad_rows, projections, rooms.where, adds, sums.bias[part]),
        *(first, last, rooms.width),
    )

    for i in range(num_own):
        _copy(rows[rooms.own[start + i]], sums.rows[part][waiting + i])
    sums.num_rows[part] += num_own
    if adds:
        found = rooms.rows[2][start : start + num_own]
        found[:] = 0
        add_to_rows(to_own, weight, found, rooms.halves[part])
        for i in range(num_own):
            _add(found[i], grad_rows[rooms.own[start + i]])
    else:
        add_to_rows(to_own, weight, grad_rows[start:stop], rooms.halves[part])
    if run[2] < 0:
        for i in range(start, stop):
            _copy(grad_rows[i], grad_states[_address(run, tree.children, i)])


@on_threads
def _take_back_in_parts(
    num_parts, states, grad_states, tree, run, table, weight, kept, rooms, sums
):
    for part in prange(num_parts):
        set_threads(1)
        _take_back(
            part, num_parts, states, grad_states, tree, run, table, weight, kept, rooms, sums
        )


@compiled
def _finish(part, num_parts, table, weight, rooms, sums, grad_table):
    """Let the rows that still wait, and a share of the table, reach their gradients."""
    _multiply_to_weight(part, len(table), rooms, sums)
    first, last = share(part, num_parts, len(table))
    grads, room = rooms.projections[0][first:last], rooms.halves[part]
    for other in range(1, num_parts):
        for i in range(first, last):
            _add(rooms.projections[other][i], grads[i - first])
    to_weight = sums.weight if part == 0 else sums.other_weights[part - 1]
    add_to_weight(grads, table[first:last], to_weight, False, room)
    add_to_rows(grads, weight, grad_table[first:last], room)


@on_threads
def _finish_in_parts(num_parts, table, weight, rooms, sums, grad_table):
    for part in prange(num_parts):
        set_threads(1)
        _finish(part, num_parts, table, weight, rooms, sums, grad_table)


@compiled
def take_levels_back(tree, table, kept, grad_states, rooms, sums, grad_table, num_threads):
    """Add to the gradients of leaves and of the table, and to the sums of all parts.

    Gradients of nodes are those from outside, and all that reaches them is added.
    """
    states, weight = kept.states, kept.weight
    max_parts, num_table = len(rooms.projections), len(table)
    before = set_threads(num_threads)
    if max_parts > 1:
        _clear_table_in_parts(max_parts, num_table, rooms)
    else:
        _clear_table(0, num_table, rooms)
    for number in range(len(tree.runs) - 1, -1, -1):
        run = tree.runs[number]
        gates = kept.gates[2 * run[0] : 2 * (run[0] + run[1])]
        num_parts = _num_parts(run, states, max_parts)
        if num_parts > 1:
            _take_back_in_parts(
                num_parts, states, grad_states, tree, run, table, weight, gates, rooms, sums
            )
        else:
            _take_back(0, 1, states, grad_states, tree, run, table, weight, gates, rooms, sums)
    if max_parts > 1:
        _finish_in_parts(max_parts, table, weight, rooms, sums, grad_table)
    else:
        _finish(0, 1, table, weight, rooms, sums, grad_table)
    set_threads(before)
