"""Folding ragged sets: groups, plans, and the folds over trees and lists."""

from treefold.fold.chain import (
    Chain,
    PackedOrder,
    chain_fold,
    chain_reduce,
    fold_steps,
    start_states,
)
from treefold.fold.groups import (
    INTEGER_TYPES,
    Groups,
    places_within,
)
from treefold.fold.plan import (
    Level,
    TreePlan,
)
from treefold.fold.plan_balanced import (
    tree_heights,
)
from treefold.fold.planning import (
    Bracketing,
    checked_bracketing,
    plan_of,
    plan_tree,
)
from treefold.fold.rows import (
    Rows,
    TableRows,
    num_rows,
    require_rows,
    take_rows,
)
from treefold.fold.sets import (
    PackedSets,
    Sets,
    pack_sets,
    pack_weight,
    reduce_sets,
    require_mask,
)
from treefold.fold.static import (
    MAX_GROUP_SIZE,
    StaticFold,
    StaticPlan,
    StaticTrees,
    fold_static,
    mask_like,
    plan_static,
    require_small,
    stable_order,
    state_rows,
    trees_of,
)
from treefold.fold.subtrees import (
    Subtrees,
    cut_trees,
    plan_joining,
)
from treefold.fold.supplied import (
    SuppliedPlan,
    fold_supplied,
    supply,
)
from treefold.fold.tree import (
    BinaryFunction,
    Fold,
    collect_groups,
    fold_levels,
    fold_nodes,
    tree_fold,
    tree_reduce,
)

__all__ = [
    "INTEGER_TYPES",
    "MAX_GROUP_SIZE",
    "BinaryFunction",
    "Bracketing",
    "Chain",
    "Fold",
    "Groups",
    "Level",
    "PackedOrder",
    "PackedSets",
    "Rows",
    "Sets",
    "StaticFold",
    "StaticPlan",
    "StaticTrees",
    "Subtrees",
    "SuppliedPlan",
    "TableRows",
    "TreePlan",
    "chain_fold",
    "chain_reduce",
    "checked_bracketing",
    "collect_groups",
    "cut_trees",
    "fold_levels",
    "fold_nodes",
    "fold_static",
    "fold_steps",
    "fold_supplied",
    "mask_like",
    "num_rows",
    "pack_sets",
    "pack_weight",
    "places_within",
    "plan_joining",
    "plan_of",
    "plan_static",
    "plan_tree",
    "reduce_sets",
    "require_mask",
    "require_rows",
    "require_small",
    "stable_order",
    "start_states",
    "state_rows",
    "supply",
    "take_rows",
    "tree_fold",
    "tree_heights",
    "tree_reduce",
    "trees_of",
]
