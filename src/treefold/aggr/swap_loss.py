"""The law loss of a recurrent cell: two neighbours in exchange give the same state."""

import torch
from torch import Tensor

from treefold.aggr.sampling import Sampling
from treefold.algebra import State, map_state, tensors_of
from treefold.fold import PackedOrder, start_states
from treefold.operators import RecurrentCell


def swap_loss(
    cell: RecurrentCell,
    rows: Tensor,
    states: State,
    packed: PackedOrder,
    sampling: Sampling,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The mean of `|f(f(s, x), y) - f(f(s, y), x)|²` over neighbours x, y in a group.

    One side is the state that the chain reached after y, so each place costs two steps. `rows` and
    `states` are in packed order.
    """
    second = sampling.choose((packed.before >= 0).nonzero().squeeze(1), generator)
    first = packed.before[second]
    start = start_states(cell.initial, rows, 1)
    # Place 0 is the initial state, place 1 + p the state after packed row p.
    after = map_state(lambda begin, made: torch.cat([begin, made]), start, states)
    before_first = map_state(lambda s: s.index_select(0, packed.before[first] + 1), after)
    reached = map_state(lambda s: s.index_select(0, second + 1), after)
    x, y = rows.index_select(0, first), rows.index_select(0, second)
    swapped = cell(cell(before_first, y), x)
    one, other = (torch.cat(tensors_of(state), -1) for state in (reached, swapped))
    return sampling.mean_square(one, other, second.numel())
