"""Binary-GRU over whole trees, compiled: one call from rows to groups, one for all gradients."""

from treefold.operators.kernels.binary_gru_ends import begin, begin_back, finish, give_groups
from treefold.operators.kernels.binary_gru_levels import make_levels
from treefold.operators.kernels.binary_gru_levels_back import take_levels_back
from treefold.operators.kernels.binary_gru_rooms import cut, cut_kept, cut_rooms, cut_sums
from treefold.operators.kernels.compiling import compiled
from treefold.operators.kernels.gru_bias import bias_of_kinds


@compiled
def fold(x, cell, ends, tree, shown, kept_block, groups, block, size, num_threads):
    """Write the groups, the states that are shown, and what is kept; work in `block`.

    Where parts do not multiply on a thread each, `num_threads` multiply together.
    """
    for row in ends.leaves:
        if not 0 <= row < len(x):
            raise IndexError("a leaf is a row that is not there")
    kept, (rooms, _) = cut_kept(kept_block, shown, size), cut_rooms(block, size)
    begin(size.num_parts, x, cell, ends.leaves, kept.weight, size.precision, kept.states)
    bias = bias_of_kinds(cell.bias_ih, cell.bias_hh)
    make_levels(tree, x[: size.table_rows], kept, bias, rooms, num_threads)
    give_groups(size.num_parts, kept.states, ends.places, cell.identity, groups)


@compiled
def fold_back(
    x, ends, tree, shown, kept_block, grad_groups, grad_nodes, grads, block, size, num_threads
):
    """Write all gradients; groups or nodes that have none come without rows."""
    kept, (rooms, rest) = cut_kept(kept_block, shown, size), cut_rooms(block, size)
    grad_states, rest = cut(rest, kept.states.shape)
    sums = cut_sums(rest, size, grads.weight)
    begin_back(size.num_parts, ends, grad_groups, grad_nodes, grad_states, grads)
    table, grad_table = x[: size.table_rows], grads.x[: size.table_rows]
    take_levels_back(tree, table, kept, grad_states, rooms, sums, grad_table, num_threads)
    finish(size.num_parts, ends, grad_states, sums, grads)
