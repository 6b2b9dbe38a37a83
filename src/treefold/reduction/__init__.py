"""Folding ragged sets: groups, plans, and the folds over trees and lists."""

from treefold.reduction.chain import (
    Chain,
    PackedOrder,
    chain_fold,
    chain_reduce,
    fold_steps,
    start_states,
)
from treefold.reduction.groups import Groups
from treefold.reduction.plan import Level, TreePlan
from treefold.reduction.planning import Bracketing, plan_tree
from treefold.reduction.rows import Rows, TableRows, take_rows
from treefold.reduction.tree import (
    Fold,
    collect_groups,
    fold_levels,
    fold_nodes,
    tree_fold,
    tree_reduce,
)

__all__ = [
    "Bracketing",
    "Chain",
    "Fold",
    "Groups",
    "Level",
    "PackedOrder",
    "Rows",
    "TableRows",
    "TreePlan",
    "chain_fold",
    "chain_reduce",
    "collect_groups",
    "fold_levels",
    "fold_nodes",
    "fold_steps",
    "plan_tree",
    "start_states",
    "take_rows",
    "tree_fold",
    "tree_reduce",
]
