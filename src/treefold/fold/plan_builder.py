"""Writes a tree plan level by level, for planners whose levels are all ragged."""

import torch
from torch import Tensor

from treefold.fold.plan import Level, TreePlan
from treefold.shapes import Int


class PlanBuilder:
    """Collects levels and roots; singles and empty groups are known from the sizes.

    Positions are places in the pool: at first rows of `x`, then, after each level, the nodes it
    made (from 0) followed by the rows it left waiting.
    """

    def __init__(self, sizes: Int[Tensor, " groups"]) -> None:
        self.sizes = sizes
        self.starts = sizes.cumsum(0) - sizes
        self.single_groups = (sizes == 1).nonzero().squeeze(1)
        self._leaves = self.starts[self.single_groups]
        self._levels: list[Level] = []
        self._root_groups = [sizes.new_zeros(0)]
        self._root_nodes = [sizes.new_zeros(0)]
        self._made = 0

    def meet(self, pairs: Int[Tensor, " twice_pairs"], waiting: Int[Tensor, " waiting"]) -> None:
        """The next level: neighbours in `pairs` meet, the rows in `waiting` stay in play."""
        take = torch.cat([pairs, waiting])
        if self._levels:
            self._made += self._levels[-1].num_pairs
            self._levels.append(Level(pairs.numel() // 2, waiting.numel(), take))
        else:  # the first level's choice is the order of the leaves
            self._leaves = torch.cat([take, self._leaves])
            self._levels.append(Level(pairs.numel() // 2, waiting.numel(), None))

    def finish(self, groups: Int[Tensor, " done"], nodes: Int[Tensor, " done"]) -> None:
        """These groups are down to one row: this node of the level just added."""
        self._root_groups.append(groups)
        self._root_nodes.append(self._made + nodes)

    def build(self) -> TreePlan:
        """The finished plan."""
        return TreePlan(
            num_rows=self._leaves.numel(),
            num_groups=self.sizes.numel(),
            leaves=self._leaves,
            levels=tuple(self._levels),
            single_groups=self.single_groups,
            root_groups=torch.cat(self._root_groups),
            root_nodes=torch.cat(self._root_nodes),
        )
