"""The runs of Binary-GRU's trees, for compiled loops: which rows meet, and where all is.

States are `[leaves, then nodes, inner, channels]`. A tree is (runs, children, table rows): a run is
(first node, number of pairs, first row), and its pairs are neighbours from that row on or, if that
is -1, the `children` of its nodes. Leaf i is row `table_rows[i]` of a table; without a table,
`table_rows` is empty, and leaves are treated as nodes are.
"""

from typing import NamedTuple

import numpy as np

from treefold.operators.kernels.compiling import compiled

MIN_NUMBERS = 1 << 11
"""How many numbers of a run's outcome are worth another thread."""


class Tree(NamedTuple):
    """Who meets whom, as above."""

    runs: np.ndarray
    children: np.ndarray
    table_rows: np.ndarray


@compiled
def num_parts_of(run, states, max_parts):
    """How many threads a run is worth."""
    return max(1, min(max_parts, run[1] * states[0].size // MIN_NUMBERS))


@compiled
def copy_row(x, out):
    """Write all of a row."""
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            out[i, c] = x[i, c]


@compiled
def add_row(x, out):
    """Add all of a row."""
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            out[i, c] += x[i, c]


@compiled
def flat(buffer):
    """All parts' projections in a row."""
    return buffer.reshape(buffer.shape[0] * buffer.shape[1], buffer.shape[2], buffer.shape[3])


@compiled
def place_of(run, children, i):
    """Where row i of a run lies among the states."""
    return run[2] + i if run[2] >= 0 else children[run[0] + i // 2, i % 2]


@compiled
def rows_of(states, run, room):
    """Where the rows of a run are: among the states if they are neighbours, else in the room."""
    num_rows, start = 2 * run[1], run[2]
    return states[start : start + num_rows] if start >= 0 else room[:num_rows]


@compiled
def nodes_of(states, run, children):
    """Where the nodes of a run are."""
    first = len(states) - len(children) + run[0]
    return states[first : first + run[1]]


@compiled
def gather(states, run, children, rows, start, stop):
    """Fetch some rows of a run, if they are not neighbours."""
    if run[2] < 0:
        for i in range(start, stop):
            copy_row(states[place_of(run, children, i)], rows[i])


@compiled
def find_projections(tree, run, of_table, first_own, rooms, start, stop):
    """Write where the projections of some rows are; return how many are not the table's."""
    if tree.table_rows.size == 0:
        for i in range(stop - start):
            rooms.where[start + i], rooms.own[start + i] = first_own + i, start + i
        return stop - start
    num_own = 0
    for i in range(start, stop):
        place = place_of(run, tree.children, i)
        if place < tree.table_rows.size:
            rooms.where[i] = of_table + tree.table_rows[place]
        else:
            rooms.where[i] = first_own + num_own
            rooms.own[start + num_own] = i
            num_own += 1
    return num_own
