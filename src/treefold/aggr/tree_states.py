"""All states of a fold, to be looked up by their places: leaves, then nodes.

Leaves stay in the table that they come from, and of all states only those asked for are copied.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from treefold.fold import TableRows, TreePlan
from treefold.shapes import Float, Int

FEW_TIMES = 2
"""The least mean number of uses of a state that make a table of all states worth it."""


@dataclass(frozen=True, eq=False)
class TreeStates:
    """The states of a fold, addressed as in `TreePlan.children`."""

    plan: TreePlan
    leaves: TableRows
    nodes: Float[Tensor, " nodes *inner channels"]

    @classmethod
    def of(cls, plan: TreePlan, leaves: Tensor | TableRows, nodes: Tensor) -> "TreeStates":
        """From leaves in the order of the plan, and nodes."""
        return cls(plan, TableRows.of(leaves), nodes)

    def __len__(self) -> int:
        return self.plan.num_rows + self.plan.num_applications

    def at(self, places: Int[Tensor, " m"]) -> TableRows:
        """The states at these places.

        Where most states are asked for, and each of them often, they all are a table, so that an
        operator can work once per state; else there is a row for each place.
        """
        table, wanted = self.leaves.table, self._sources[places]
        if len(wanted) >= FEW_TIMES * (len(table) + len(self.nodes)):
            return TableRows(torch.cat([table, self.nodes]), wanted)
        is_leaf = wanted < len(table)
        of_leaves, of_nodes = is_leaf.nonzero().squeeze(1), (~is_leaf).nonzero().squeeze(1)
        found = [
            table.index_select(0, wanted[of_leaves]),
            self.nodes.index_select(0, wanted[of_nodes] - len(table)),
        ]
        # Row i of what is found belongs to place `order[i]`.
        order = torch.cat([of_leaves, of_nodes])
        rows = torch.empty_like(order).index_copy_(
            0, order, torch.arange(len(order), device=order.device)
        )
        return TableRows(torch.cat(found), rows)

    @cached_property
    def _sources(self) -> Int[Tensor, " states"]:
        """Each state's row in [the leaves' table, nodes]."""
        start = len(self.leaves.table)
        nodes = torch.arange(start, start + len(self.nodes), device=self.nodes.device)
        return torch.cat([self.leaves.rows, nodes])
