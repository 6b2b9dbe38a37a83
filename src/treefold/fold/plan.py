"""A tree plan: who meets whom, and when, as index tensors that depend on group sizes alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from treefold.fold._inference import lasting
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

    @property
    def num_rows(self) -> int:
        """Rows in play at this level."""
        return 2 * self.num_pairs + self.num_waiting


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
    @lasting
    def empty_groups(self) -> Int[Tensor, " empty"]:
        """The groups without rows."""
        empty = torch.ones(self.num_groups, dtype=torch.bool, device=self.leaves.device)
        empty[self.single_groups] = False
        empty[self.root_groups] = False
        return empty.nonzero().squeeze(1)

    @cached_property
    @lasting
    def group_places(self) -> Int[Tensor, " groups"]:
        """The place of each group's root in [leaves, nodes]; -1 for those without rows."""
        places = torch.full((self.num_groups,), -1, device=self.leaves.device)
        first_single = self.num_rows - self.num_singles
        places[self.single_groups] = torch.arange(first_single, self.num_rows, device=places.device)
        places[self.root_groups] = self.num_rows + self.root_nodes
        return places

    @cached_property
    @lasting
    def children(self) -> Int[Tensor, " nodes 2"]:
        """Left and right child of each node, as places in [leaves, nodes].

        `i < num_rows` is leaf i, which is row `leaves[i]`; `num_rows + j` is node j.
        """
        pool = torch.arange(self.num_rows, device=self.leaves.device)
        made, met = self.num_rows, []
        for level in self.levels:
            rows = pool[: level.num_rows] if level.take is None else pool[level.take]
            pairs, waiting = rows.split([2 * level.num_pairs, level.num_waiting])
            met.append(pairs.view(-1, 2))
            nodes = torch.arange(made, made + level.num_pairs, device=pool.device)
            made += level.num_pairs
            pool = torch.cat([nodes, waiting]) if level.num_waiting else nodes
        return torch.cat(met) if met else self.leaves.new_zeros(0, 2)

    @cached_property
    @lasting
    def starts_of_levels(self) -> Int[Tensor, " levels 2"]:
        """Each level's number of pairs, and where they begin in [leaves, nodes].

        They are neighbours from there on; -1 if they are not, but the `children` of their nodes.
        """
        made, start, rows = 0, 0, []
        for level in self.levels:
            rows.append((level.num_pairs, start if level.take is None else -1))
            start = self.num_rows + made
            made += level.num_pairs
        return torch.tensor(rows, dtype=torch.int64, device=self.leaves.device).view(-1, 2)

    @classmethod
    def of_pairs(cls, num_pairs: int, device: torch.device | str = "cpu") -> "TreePlan":
        """Neighbouring rows meet, and that is all: nodes only, no groups."""
        none = torch.zeros(0, dtype=torch.int64, device=device)
        leaves = torch.arange(2 * num_pairs, device=device)
        levels = (Level(num_pairs, 0, None),) if num_pairs else ()
        return cls(2 * num_pairs, 0, leaves, levels, none, none, none)

    @classmethod
    def of_path(
        cls, comes_from_right: Sequence[bool], device: torch.device | str = "cpu"
    ) -> "TreePlan":
        """Row 0 meets row 1, what they make meets row 2, and so on: nodes only, no groups.

        What was made last is the right one of its pair where `comes_from_right` says so.
        """
        num_nodes = len(comes_from_right)
        num_rows = num_nodes + bool(num_nodes)
        levels, pairs = [], []
        for node, from_right in enumerate(comes_from_right):
            waiting = num_nodes - node - 1
            levels.append(Level(1, waiting, _first_two(2 + waiting, from_right, device)))
            last = num_rows + node - 1 if node else 0
            pairs.append((node + 1, last) if from_right else (last, node + 1))
        none, leaves = torch.arange(0, device=device), torch.arange(num_rows, device=device)
        plan = cls(num_rows, 0, leaves, tuple(levels), none, none, none)
        # Known already; going through the levels would take longer than folding them.
        plan.__dict__["children"] = torch.tensor(pairs, device=device).view(-1, 2)
        return plan

    def to(self, device: torch.device | str) -> "TreePlan":
        """The same plan on another device, with all that a fold looks up, in one transfer."""
        takes = [level.take for level in self.levels if level.take is not None]
        names = ("leaves", "single_groups", "root_groups", "root_nodes")
        found = [getattr(self, name) for name in (*names, "children", "group_places")]
        sent = iter(send([*found, *takes], torch.device(device)))
        tensors: dict[str, Any] = {name: next(sent) for name in names}
        looked_up = {"children": next(sent), "group_places": next(sent)}
        levels = tuple(
            level if level.take is None else replace(level, take=next(sent))
            for level in self.levels
        )
        plan = replace(self, levels=levels, **tensors)
        plan.__dict__.update(looked_up)
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
    return torch.tensor([*first, *range(2, num_rows)], device=device)
