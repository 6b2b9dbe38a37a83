"""A tree plan: who meets whom, and when, as index tensors that depend on group sizes alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from treefold.fold.transfer import send
from treefold.shapes import Int


@dataclass(frozen=True, eq=False)
class Level:
    """One round of meetings.

    The pool holds what the last level made, then what it left waiting. `take` picks this level's
    rows from it (None: its first rows, as they lie): `num_pairs` pairs of neighbours, then
    `num_waiting` rows that meet later.
    """

    num_pairs: int
    num_waiting: int
    take: Int[Tensor, " rows"] | None


class TreeTables(NamedTuple):
    """The trees of a plan without its pools: places are those in [leaves, nodes]."""

    levels: Int[Tensor, " levels 2"]
    """Each level's number of pairs, and the place from which on they are neighbours; -1 if they
    are not, but the `children` of their nodes."""
    children: Int[Tensor, " nodes 2"]
    groups: Int[Tensor, " groups"]
    """The root of each group; -1 for those without rows."""


@dataclass(frozen=True, eq=False)
class TreePlan:
    """The trees over all groups of consecutive rows of a batch, level by level.

    The first pool is `x[leaves]`. Every meeting makes a node; nodes are numbered in the order in
    which they are made. Group `root_groups[i]` ends in node `root_nodes[i]`; the groups
    `single_groups` have one row each, which are the last of the leaves; all others are empty.
    """

    num_rows: int
    num_groups: int
    leaves: Int[Tensor, " n"]
    levels: tuple[Level, ...]
    single_groups: Int[Tensor, " singles"]
    root_groups: Int[Tensor, " roots"]
    root_nodes: Int[Tensor, " roots"]

    @property
    def depth(self) -> int:
        """The number of levels, which is the height of the tallest tree."""
        return len(self.levels)

    @cached_property
    def num_applications(self) -> int:
        """The number of applications of the operator, which is the number of nodes."""
        return sum(level.num_pairs for level in self.levels)

    @property
    def num_singles(self) -> int:
        """The number of groups that have one row and are that row."""
        return self.single_groups.numel()

    @property
    def num_empty(self) -> int:
        """The number of groups that have no rows and become the identity."""
        return self.num_groups - self.num_singles - self.root_groups.numel()

    @cached_property
    def tables(self) -> TreeTables:
        """The same trees as three tensors, for compiled folds and for laws."""
        with torch.inference_mode(False):  # for training too, wherever it is first asked for
            device = self.leaves.device
            pool = torch.arange(self.num_rows, device=device)
            start, made, levels, met = 0, self.num_rows, [], [pool[:0].view(0, 2)]
            for level in self.levels:
                levels.append((level.num_pairs, start if level.take is None else -1))
                rows = pool if level.take is None else pool.index_select(0, level.take)
                end = 2 * level.num_pairs
                met.append(rows[:end].view(-1, 2))
                start, made = made, made + level.num_pairs
                nodes = torch.arange(start, made, device=device)
                waiting = rows[end : end + level.num_waiting]
                pool = torch.cat([nodes, waiting]) if level.num_waiting else nodes
            groups = torch.full((self.num_groups,), -1, device=device)
            groups[self.single_groups] = torch.arange(
                self.num_rows - self.single_groups.numel(), self.num_rows, device=device
            )
            groups[self.root_groups] = self.num_rows + self.root_nodes
            numbers = torch.tensor(levels, dtype=torch.int64, device=device).view(-1, 2)
            return TreeTables(numbers, torch.cat(met), groups)

    @property
    def children(self) -> Int[Tensor, " nodes 2"]:
        """Left and right child of each node, as places in [leaves, nodes].

        `i < num_rows` is leaf i, which is row `leaves[i]`; `num_rows + j` is node j.
        """
        return self.tables.children

    @classmethod
    def of_pairs(cls, num_pairs: int, device: torch.device | str = "cpu") -> "TreePlan":
        """Neighbouring rows meet, and that is all: nodes only, no groups."""
        leaves = torch.arange(2 * num_pairs, device=device)
        levels = (Level(num_pairs, 0, None),) if num_pairs else ()
        none = leaves[:0]
        return cls(2 * num_pairs, 0, leaves, levels, none, none, none)

    @classmethod
    def of_path(
        cls, comes_from_right: Sequence[bool], device: torch.device | str = "cpu"
    ) -> "TreePlan":
        """Row 0 meets row 1, what they make meets row 2, and so on: nodes only, no groups.

        What was made last is the right one of its pair where `comes_from_right` is true.
        """
        num_nodes = len(comes_from_right)
        num_rows = num_nodes + bool(num_nodes)
        levels, counts, pairs = [], [], []
        for node, from_right in enumerate(comes_from_right):
            waiting = num_nodes - node - 1
            levels.append(Level(1, waiting, _first_two(2 + waiting, from_right, device)))
            counts.append((1, -1))
            last = num_rows + node - 1 if node else 0
            pairs.append((node + 1, last) if from_right else (last, node + 1))
        leaves = torch.arange(num_rows, device=device)
        none = leaves[:0]
        plan = cls(num_rows, 0, leaves, tuple(levels), none, none, none)
        # Known already; going through the levels would take longer than folding them.
        known = torch.tensor([counts, pairs], dtype=torch.int64, device=device).view(2, -1, 2)
        plan.__dict__["tables"] = TreeTables(known[0], known[1], none)
        return plan

    def to(self, device: torch.device | str) -> "TreePlan":
        """The same plan on another device, with all that a fold looks up, in one transfer."""
        takes = [level.take for level in self.levels if level.take is not None]
        names = ("leaves", "single_groups", "root_groups", "root_nodes")
        found = [*(getattr(self, name) for name in names), *self.tables]
        sent = iter(send([*found, *takes], torch.device(device)))
        tensors: dict[str, Any] = {name: next(sent) for name in names}
        tables = TreeTables(next(sent), next(sent), next(sent))
        levels = tuple(
            level if level.take is None else replace(level, take=next(sent))
            for level in self.levels
        )
        plan = replace(self, levels=levels, **tensors)
        plan.__dict__["tables"] = tables
        return plan

    def __str__(self) -> str:
        return (
            f"TreePlan({self.num_rows} rows in {self.num_groups} groups, depth {self.depth}, "
            f"{self.num_applications} applications)"
        )


@cache
def _first_two(num_rows: int, swapped: bool, device: torch.device | str) -> Tensor:
    """All rows as they lie, but the first two in exchange if they are `swapped`."""
    first = [1, 0] if swapped else [0, 1]
    with torch.inference_mode(False):
        return torch.tensor([*first, *range(2, num_rows)], device=device)
