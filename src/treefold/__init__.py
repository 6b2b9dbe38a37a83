"""treefold: learnable commutative monoids.

Aggregators for graphs and sets whose binary operator is itself learned, folded over a balanced
binary tree.
"""

from treefold import algebra
from treefold.aggregators import (
    AGGREGATORS,
    FixedAggregation,
    LCMAggregation,
    MonoidAggregation,
    RaggedAggregation,
    RecurrentAggregation,
    aggregator,
    record_penalties,
    reuse_plans,
)
from treefold.algebra import (
    ASSOCIATIVITY,
    COMMUTATIVITY,
    IDENTITY,
    SWAP,
    Monoid,
    check_imitates,
    law_report,
)
from treefold.operators import (
    OPERATORS,
    BinaryGRU,
    BinaryMLP,
    Conjugated,
    Operator,
    Symmetrized,
)
from treefold.reduction import (
    Groups,
    TableRows,
    TreePlan,
    chain_reduce,
    plan_tree,
    tree_reduce,
)

__version__ = "0.1.0"

__all__ = [
    "AGGREGATORS",
    "ASSOCIATIVITY",
    "COMMUTATIVITY",
    "IDENTITY",
    "OPERATORS",
    "SWAP",
    "BinaryGRU",
    "BinaryMLP",
    "Conjugated",
    "FixedAggregation",
    "Groups",
    "LCMAggregation",
    "Monoid",
    "MonoidAggregation",
    "Operator",
    "RaggedAggregation",
    "RecurrentAggregation",
    "Symmetrized",
    "TableRows",
    "TreePlan",
    "aggregator",
    "algebra",
    "chain_reduce",
    "check_imitates",
    "law_report",
    "plan_tree",
    "record_penalties",
    "reuse_plans",
    "tree_reduce",
]
