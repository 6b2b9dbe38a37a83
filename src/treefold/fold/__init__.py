"""Folding ragged sets: groups, plans, and the folds over trees and lists."""

from treefold.fold.chain import (
    Chain,
    PackedOrder,
    chain_fold,
    chain_reduce,
    fold_steps,
    start_states,
)
from treefold.fold.groups import Groups
from treefold.fold.plan import Level, TreePlan
from treefold.fold.planning import Bracketing, plan_tree
from treefold.fold.rows import Rows, TableRows, take_rows
from treefold.fold.tree import (
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
