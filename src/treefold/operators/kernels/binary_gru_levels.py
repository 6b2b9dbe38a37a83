"""The levels of Binary-GRU's trees, compiled: all runs forward.

The pairs of a run are cut into parts, each done by one thread from end to end.
"""

from numba import prange

from treefold.operators.kernels.binary_gru import combine, combine_finally
from treefold.operators.kernels.binary_gru_runs import (
    MIN_NUMBERS,
    copy_row,
    find_projections,
    flat,
    gather,
    nodes_of,
    num_parts_of,
    rows_of,
)
from treefold.operators.kernels.blas import set_threads
from treefold.operators.kernels.compiling import compiled, on_threads, share
from treefold.operators.kernels.multiplying import project


@compiled
def _make(part, num_parts, states, tree, run, table, weight, bias, kept, rooms):
    """Make the nodes of one part of a run; `kept` has no rows if no gradient is to come."""
    first, last = share(part, num_parts, run[1])
    start, stop = 2 * first, 2 * last
    rows = rows_of(states, run, rooms.rows[0])
    gather(states, run, tree.children, rows, start, stop)

    first_own = part * rooms.projections.shape[1] + len(table)
    num_own = find_projections(tree, run, 0, first_own, rooms, start, stop)
    own_rows = rows[start:stop]
    if num_own < stop - start:
        own_rows = rooms.rows[1][start : start + num_own]
        for i in range(num_own):
            copy_row(rows[rooms.own[start + i]], own_rows[i])

    projections = flat(rooms.projections)
    to_own = projections[first_own : first_own + num_own]
    project(own_rows, weight, to_own, rooms.halves[part])
    nodes = nodes_of(states, run, tree.children)
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

    Where parts do not multiply on a thread each, `num_threads` multiply together, in float32.
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
        num_parts = num_parts_of(run, states, max_parts)
        if num_parts > 1:
            _make_in_parts(num_parts, states, tree, run, table, weight, bias, gates, rooms)
        else:
            _make(0, 1, states, tree, run, table, weight, bias, gates, rooms)
    set_threads(before)
