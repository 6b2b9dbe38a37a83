"""All states of a fold, to be looked up by their places: leaves, then nodes.

Leaves stay in the table that they come from, and of all states only those asked for are copied.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from treefold.reduction import TableRows, TreePlan
from treefold.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class TreeStates:
    """The states of a fold, addressed as in `TreePlan.children`."""

    plan: TreePlan
    leaves: TableRows
    nodes: Float[Tensor, " nodes *inner channels"]

    @classmethod
    def of(cls, plan: TreePlan, leaves: Tensor | TableRows, nodes: Tensor) -> "TreeStates":
        """From leaves in the order of the plan, and nodes."""
        if isinstance(leaves, Tensor):
            leaves = TableRows(leaves, torch.arange(len(leaves), device=leaves.device))
        return cls(plan, leaves, nodes)

    def __len__(self) -> int:
        return self.plan.num_rows + self.plan.num_applications

    def at(self, places: Int[Tensor, " m"]) -> TableRows:
        """The states at these places, each of them in the table once, however often it is asked."""
        table, wanted = self.leaves.table, self._sources[places]
        if len(wanted) >= len(table) + len(self.nodes):
            return TableRows(torch.cat([table, self.nodes]), wanted)
        # Sorted, so that rows of the leaves' table come before nodes.
        distinct, rows = wanted.unique(return_inverse=True)
        num_leaves = int((distinct < len(table)).sum())
        of_leaves = table.index_select(0, distinct[:num_leaves])
        of_nodes = self.nodes.index_select(0, distinct[num_leaves:] - len(table))
        return TableRows(torch.cat([of_leaves, of_nodes]), rows)

    @cached_property
    def _sources(self) -> Int[Tensor, " states"]:
        """Where each state lies in [the leaves' table, nodes]."""
        start = len(self.leaves.table)
        nodes = torch.arange(start, start + len(self.nodes), device=self.nodes.device)
        return torch.cat([self.leaves.rows, nodes])
