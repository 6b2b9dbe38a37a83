"""The fold over lists: a recurrent cell run along every group, all groups in step.

Rows are packed by place, longest groups first: step t is one call of the cell on the
groups that still have a row t: no padding, and each group ends in its own true last state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias, cast

import torch
from torch import Tensor

from treefold.algebra import State, map_state, tensors_of
from treefold.fold.groups import Groups, places_within
from treefold.fold.rows import Rows, require_rows, take_rows
from treefold.fold.transfer import send
from treefold.shapes import Int

Cell: TypeAlias = Callable[[State, State], State]


@dataclass(frozen=True, eq=False)
class PackedOrder:
    """Rows by place, groups by length: the layout of torch's `PackedSequence`.

    `rows[p]` is the row of `x` at packed place p; step t has `batch_sizes[t]` rows, one for each of
    the first groups of `by_length`, whose last rows are at `last`.
    """

    rows: Int[Tensor, " n"]
    batch_sizes: Int[Tensor, " steps"]
    by_length: Int[Tensor, " occupied"]
    last: Int[Tensor, " occupied"]

    @classmethod
    def of(cls, groups: Groups) -> "PackedOrder":
        """The packed order of these groups, made at the first call."""
        if "packed" not in groups.plans:
            with torch.inference_mode(False):  # for training too, wherever it is first asked for
                groups.plans["packed"] = cls._pack(groups)
        return cast(PackedOrder, groups.plans["packed"])

    @classmethod
    def _pack(cls, groups: Groups) -> "PackedOrder":
        sizes = groups.host_sizes
        by_length = sizes.argsort(descending=True, stable=True)
        by_length = by_length[: int((sizes > 0).sum())]
        ranks = torch.arange(by_length.numel())
        place = places_within(sizes)
        batch_sizes = torch.bincount(place)
        first = batch_sizes.cumsum(0) - batch_sizes
        rank = torch.empty_like(sizes).index_copy_(0, by_length, ranks)
        packed = first[place] + rank.repeat_interleave(sizes)
        last = first[sizes[by_length] - 1] + ranks
        packed, by_length, last = send([packed, by_length, last], groups.order.device)
        rows = torch.empty_like(groups.order).index_copy_(0, packed, groups.order)
        return cls(rows, batch_sizes, by_length, last)

    @cached_property
    def before(self) -> Int[Tensor, " n"]:
        """The packed place of the row before each row in its group; -1 for first rows."""
        with torch.inference_mode(False):
            steps = self.batch_sizes
            step_back = torch.cat([steps[:1], steps[:-1]]).repeat_interleave(steps)
            before = (torch.arange(self.rows.numel()) - step_back).clamp(min=-1)
            return send([before], self.rows.device)[0]


class Chain(NamedTuple):
    """Each group's last state after a chain, and (on request) the state after every row."""

    groups: State
    states: State | None
    """In packed order."""


class FoldsChains(Protocol):
    """A cell that knows a faster way to run along packed rows."""

    def fold_packed(
        self, x: State, packed: PackedOrder, initial: State, keep_states: bool
    ) -> Chain:
        """The last state per group of `packed.by_length`, and the states after every row."""
        ...


def chain_reduce(cell: Cell, x: Rows, groups: Groups, initial: State) -> State:
    """Fold each group of rows of `x` from the left, `state = cell(state, row)`, from `initial`.

    Rows are taken in the order of `groups.order`; empty groups give `initial`.
    """
    return chain_fold(cell, x, groups, initial).groups


def chain_fold(
    cell: Cell, x: Rows, groups: Groups, initial: State, keep_states: bool = False
) -> Chain:
    """Fold as `chain_reduce` does, and return the states after every row if asked to."""
    require_rows(x, groups)
    packed = PackedOrder.of(groups)
    rows = take_rows(x, packed.rows, groups.has_every_row)
    if hasattr(cell, "fold_packed") and packed.rows.numel():
        chain = cast(FoldsChains, cell).fold_packed(rows, packed, initial, keep_states)
    else:
        chain = fold_steps(cell, rows, packed, initial)
    ends = map_state(
        lambda start, last: start.to(last.dtype).index_copy(0, packed.by_length, last),
        start_states(initial, rows, groups.num_groups),
        chain.groups,
    )
    return Chain(ends, chain.states)


def fold_steps(cell: Cell, rows: State, packed: PackedOrder, initial: State) -> Chain:
    """The chain in plain operations, for any cell; `rows` are already in packed order."""
    sizes = packed.batch_sizes.tolist()
    state = start_states(initial, rows, sizes[0] if sizes else 0)
    made, start = [], 0
    for size in sizes or [0]:  # modules get their (zero) gradients even if there are no rows
        step = map_state(lambda x: x[start : start + size], rows)  # noqa: B023
        state = cell(map_state(lambda s: s[:size], state), step)  # noqa: B023
        made.append(state)
        start += size
    states = map_state(lambda *parts: torch.cat(parts), *made)
    return Chain(map_state(lambda s: s.index_select(0, packed.last), states), states)


def start_states(initial: State, rows: State, count: int) -> State:
    """`initial` once for each of `count` groups, with the inner feature axes of `rows`."""
    feature = tensors_of(rows)[0].shape[1:]

    def expanded(start: Tensor) -> Tensor:
        inner = feature[: max(0, len(feature) - start.dim())]
        return start.expand(count, *inner, *start.shape)

    return map_state(expanded, initial)
