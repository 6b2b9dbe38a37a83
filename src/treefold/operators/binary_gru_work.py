"""What a Binary-GRU fold works on, apart from the numbers, and in which order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from treefold.fold import TreePlan
from treefold.operators.one_thread import is_small

CHUNK = 1024 * 128
"""Numbers of state in a run of pairs, or in a few runs."""

PlainFold: TypeAlias = Callable[..., tuple[Tensor, Tensor]]


class Parameters(NamedTuple):
    """A GRU cell's, and the identity."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor
    identity: Tensor


class Run(NamedTuple):
    """Some pairs of one level, in the buffer of all states: leaves, then nodes."""

    first_node: int
    num_pairs: int
    first_row: int | None
    """Pairs are neighbours from here on; None if they are the children of the nodes."""


@dataclass(frozen=True)
class Work:
    """What is folded: leaf i is row `leaves[i]` of the input; `row_shape` is (inner, channels).

    `shared` says that the input is a table with fewer rows than there are leaves. Multiplications
    are done in `precision`. `plain` is the same fold in differentiable operations.
    `is_permutation` says that every row of the input is one leaf; `keeps` that a gradient is to
    come; `shows_nodes` that somebody wants the nodes, whose memory then is not ours to use again.
    A run is a chunk, cut into `runs_per_chunk`.
    """

    plan: TreePlan
    leaves: Tensor
    row_shape: tuple[int, int]
    shared: bool
    precision: torch.dtype
    plain: PlainFold
    is_permutation: bool
    keeps: bool
    shows_nodes: bool
    runs_per_chunk: int

    @property
    def num_states(self) -> int:
        """How many leaves and nodes there are."""
        return self.plan.num_rows + self.plan.num_applications

    @property
    def is_small(self) -> bool:
        """Whether one thread does it sooner than several that wait for each other."""
        return is_small(self.plan.num_applications * prod(self.row_shape), self.row_shape[1])

    @property
    def pairs_per_run(self) -> int:
        """How many pairs of rows make a run."""
        numbers = CHUNK // self.runs_per_chunk
        return max(1, numbers // max(1, prod(self.row_shape)))

    @property
    def rows_per_run(self) -> int:
        """How many rows meet at once, at most."""
        return 2 * min(self.pairs_per_run, self.plan.num_applications)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The meetings in order, cut into runs that stay in cache."""
        return tuple(self._runs())

    def _runs(self) -> Iterator[Run]:
        made, start, most = 0, 0, self.pairs_per_run
        for level in self.plan.levels:
            for low in range(0, level.num_pairs, most):
                count = min(most, level.num_pairs - low)
                yield Run(made + low, count, start + 2 * low if level.take is None else None)
            start = self.plan.num_rows + made
            made += level.num_pairs
