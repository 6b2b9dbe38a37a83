"""The memory a compiled Binary-GRU fold works in, cut from one block each way."""

from typing import NamedTuple

import numpy as np

from treefold.operators.kernels.compiling import HALF_AXES, compiled
from treefold.operators.kernels.halves import room_per_part

_NUM_PROJECTIONS, _NUM_KEPT, _NUM_ROWS = 6, 4, 3


class Size(NamedTuple):
    """How large a fold is, and how much memory it needs."""

    num_parts: int
    """Into how many parts a run may be cut, each with a thread."""
    rows_per_run: int
    rows_per_part: int
    table_rows: int
    """Rows of a table that leaves share; 0 without one."""
    num_states: int
    num_met: int
    """Rows that meet, whose gates are kept; 0 if no gradient is to come."""
    shows_nodes: bool
    precision: np.ndarray
    """`SINGLE` or `HALF`: in which to multiply."""
    inner: int
    channels: int
    width: np.ndarray
    """What `width_of` gives for the channels."""

    @property
    def weight_shape(self) -> tuple[int, int]:
        """Of both sides, stacked."""
        return _NUM_PROJECTIONS * self.channels, self.channels

    @property
    def num_kept(self) -> int:
        """Numbers that are kept from one way to the other, but for states that are shown."""
        num_states = 0 if self.shows_nodes else self.num_states
        per_channel = self.inner * (_NUM_KEPT * self.num_met + num_states)
        return self.channels * (_NUM_PROJECTIONS * self.channels + per_channel)

    @property
    def num_forward(self) -> int:
        """Numbers in the block for the way forward: rooms alone."""
        projected = self.num_parts * (self.table_rows + self.rows_per_part)
        per_channel = _NUM_PROJECTIONS * projected + _NUM_ROWS * self.rows_per_run
        is_half = self.precision.ndim == HALF_AXES
        to_round = room_per_part(self.channels, _NUM_PROJECTIONS) if is_half else 0
        return self.inner * self.channels * per_channel + self.num_parts * to_round

    @property
    def num_backward(self) -> int:
        """Numbers in the block for the way back: rooms, gradients of states, and sums."""
        waiting = self.num_parts * self.rows_per_part
        weights = (self.num_parts - 1) * _NUM_PROJECTIONS * self.channels
        sums = self.inner * waiting + weights + _NUM_KEPT * self.num_parts
        return self.num_forward + self.channels * (self.inner * self.num_states + sums)


class Kept(NamedTuple):
    """What is kept from the way forward to the way back."""

    weight: np.ndarray
    """Both sides', stacked: `[6 channels, channels]`; packed if it is to multiply in bfloat16."""
    gates: np.ndarray
    """`[rows that meet, inner, 4 channels]`."""
    states: np.ndarray
    """`[leaves, then nodes, inner, channels]`."""


class Rooms(NamedTuple):
    """Memory whose contents are nobody's."""

    projections: np.ndarray
    """`[parts, rows, inner, 6 channels]`: the table's, then those of a part's other rows."""
    rows: np.ndarray
    """`[3, rows of a run, inner, channels]`."""
    where: np.ndarray
    """`[rows of a run]`: which projection each row has."""
    own: np.ndarray
    """`[rows of a run]`: which rows are not the table's, from the first of each part on."""
    halves: np.ndarray
    """`[parts, pairs of halves]`: where parts round numbers; `[parts, 0, 0]` if they do not."""
    width: np.ndarray
    """What `width_of` gives for the channels."""


class Sums(NamedTuple):
    """Gradients that each part adds up for itself, and the rows that wait to be multiplied."""

    weight: np.ndarray
    """`[6 channels, channels]`: the first part's, and in the end that of all.

    In bfloat16, `[channels, 6 channels]` in the same memory.
    """
    other_weights: np.ndarray
    """`[parts - 1, 6 channels, channels]`."""
    bias: np.ndarray
    """`[parts, 4 channels]`."""
    rows: np.ndarray
    """`[parts, rows, inner, channels]`."""
    num_rows: np.ndarray
    """`[parts]`: how many of these rows wait."""
    is_blank: np.ndarray
    """`[parts]`: whether a part's weights are still what the memory held before."""


@compiled
def cut(block, shape):
    """An array of this shape, and what is left of the block."""
    size = 1
    for length in shape:
        size *= length
    return block[:size].reshape(shape), block[size:]


@compiled
def cut_kept(block, shown, size):
    """What is kept: in the block, but for states that are shown."""
    inner, channels = size.inner, size.channels
    weight, rest = cut(block, (_NUM_PROJECTIONS * channels, channels))
    gates, rest = cut(rest, (size.num_met, inner, _NUM_KEPT * channels))
    if size.shows_nodes:
        return Kept(weight, gates, shown)
    states, _ = cut(rest, (size.num_states, inner, channels))
    return Kept(weight, gates, states)


@compiled
def cut_rooms(block, size):
    """Rooms for either way, and what is left of the block."""
    projected = size.table_rows + size.rows_per_part
    per_row = _NUM_PROJECTIONS * size.channels
    projections, rest = cut(block, (size.num_parts, projected, size.inner, per_row))
    rows, rest = cut(rest, (_NUM_ROWS, size.rows_per_run, size.inner, size.channels))
    where, own = np.empty(size.rows_per_run, np.int64), np.empty(size.rows_per_run, np.int64)
    halves, rest = _cut_halves(rest, size, size.precision)
    return Rooms(projections, rows, where, own, halves, size.width), rest


@compiled
def _cut_halves(block, size, precision):
    """Room to round numbers in, and what is left of the block."""
    if precision.ndim == HALF_AXES:
        room = room_per_part(size.channels, _NUM_PROJECTIONS)
        halves, rest = cut(block, (size.num_parts, room))
        return halves.view(np.uint32), rest
    return np.empty((size.num_parts, 0, 0), np.uint32), block


@compiled
def cut_sums(block, size, grad_weight):
    """Sums that start from nothing, with the first part's weights where all are to end up."""
    num_parts, channels = size.num_parts, size.channels
    others, rest = cut(block, (num_parts - 1, _NUM_PROJECTIONS * channels, channels))
    rows, rest = cut(rest, (num_parts, size.rows_per_part, size.inner, channels))
    bias, _ = cut(rest, (num_parts, _NUM_KEPT * channels))
    bias[:] = 0
    num_rows, is_blank = np.zeros(num_parts, np.int64), np.ones(num_parts, np.bool_)
    return Sums(grad_weight, others, bias, rows, num_rows, is_blank)
