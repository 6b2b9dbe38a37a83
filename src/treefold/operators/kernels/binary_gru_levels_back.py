"""The levels of Binary-GRU's trees, compiled: all runs backward, from nodes to leaves.

Each part has its own sums, and its own gradients of the table, so that none waits for another.
"""

from numba import prange

from treefold.operators.kernels.binary_gru import combine_backward
from treefold.operators.kernels.binary_gru_runs import (
    add_row,
    copy_row,
    find_projections,
    flat,
    gather,
    nodes_of,
    num_parts_of,
    place_of,
    rows_of,
)
from treefold.operators.kernels.blas import set_threads
from treefold.operators.kernels.compiling import compiled, on_threads, share
from treefold.operators.kernels.multiplying import add_to_rows, add_to_weight


@compiled
def _clear_table(part, num_table, rooms):
    rooms.projections[part][:num_table] = 0


@on_threads
def _clear_table_in_parts(num_parts, num_table, rooms):
    for part in prange(num_parts):
        _clear_table(part, num_table, rooms)


@compiled
def _weight_of(part, sums):
    return sums.weight if part == 0 else sums.other_weights[part - 1]


@compiled
def _multiply_to_weight(part, num_table, rooms, sums):
    """Let the rows of a part that wait reach the weights' gradient."""
    waiting = sums.num_rows[part]
    grads = rooms.projections[part][num_table : num_table + waiting]
    rows, room = sums.rows[part][:waiting], rooms.halves[part]
    add_to_weight(grads, rows, _weight_of(part, sums), sums.is_blank[part], room)
    sums.num_rows[part], sums.is_blank[part] = 0, False


@compiled
def _take_back(part, num_parts, states, grad_states, tree, run, table, weight, kept, rooms, sums):
    """Take the gradients of the nodes of one part of a run to its rows."""
    first, last = share(part, num_parts, run[1])
    start, stop = 2 * first, 2 * last
    rows, grad_rows = rows_of(states, run, rooms.rows[0]), rows_of(grad_states, run, rooms.rows[1])
    gather(states, run, tree.children, rows, start, stop)
    gather(grad_states, run, tree.children, grad_rows, start, stop)

    if sums.num_rows[part] + stop - start > sums.rows.shape[1]:
        _multiply_to_weight(part, len(table), rooms, sums)
    waiting = sums.num_rows[part]
    of_table = part * rooms.projections.shape[1]
    first_own = of_table + len(table) + waiting
    num_own = find_projections(tree, run, of_table, first_own, rooms, start, stop)
    projections = flat(rooms.projections)
    to_own, adds = projections[first_own : first_own + num_own], num_own < stop - start
    if adds:
        to_own[:] = 0
    grad_nodes = nodes_of(grad_states, run, tree.children)
    combine_backward(
        *(grad_nodes, rows, kept, grad_rows, projections, rooms.where, adds, sums.bias[part]),
        *(first, last, rooms.width),
    )

    for i in range(num_own):
        copy_row(rows[rooms.own[start + i]], sums.rows[part][waiting + i])
    sums.num_rows[part] += num_own
    if adds:
        found = rooms.rows[2][start : start + num_own]
        found[:] = 0
        add_to_rows(to_own, weight, found, rooms.halves[part])
        for i in range(num_own):
            add_row(found[i], grad_rows[rooms.own[start + i]])
    else:
        add_to_rows(to_own, weight, grad_rows[start:stop], rooms.halves[part])
    if run[2] < 0:
        for i in range(start, stop):
            copy_row(grad_rows[i], grad_states[place_of(run, tree.children, i)])


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
            add_row(rooms.projections[other][i], grads[i - first])
    add_to_weight(grads, table[first:last], _weight_of(part, sums), False, room)
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
        num_parts = num_parts_of(run, states, max_parts)
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
