"""treefold: learnable commutative monoids.

Aggregators for graphs and sets whose binary operator is itself learned, folded over a balanced
binary tree.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treefold import algebra
    from treefold.aggr import (
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
    from treefold.incremental import (
        BracketingSpread,
        Chunk,
        DynamicAggregation,
        FoldTree,
        StreamingFold,
        bracketing_spread,
        chunks_spread,
        fold_chunks,
        graph_spread,
        sampled_spread,
        sharded_spread,
    )
    from treefold.operators import (
        OPERATORS,
        BinaryGRU,
        BinaryMLP,
        Conjugated,
        GatedSelection,
        Operator,
        Symmetrized,
    )
    from treefold.fold import (
        Groups,
        TableRows,
        TreePlan,
        chain_reduce,
        plan_tree,
        tree_reduce,
    )
    from treefold.distributed import sharded_reduce

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
    "BracketingSpread",
    "Chunk",
    "Conjugated",
    "DynamicAggregation",
    "FixedAggregation",
    "FoldTree",
    "GatedSelection",
    "Groups",
    "LCMAggregation",
    "Monoid",
    "MonoidAggregation",
    "Operator",
    "RaggedAggregation",
    "RecurrentAggregation",
    "StreamingFold",
    "Symmetrized",
    "TableRows",
    "TreePlan",
    "aggregator",
    "algebra",
    "bracketing_spread",
    "chain_reduce",
    "check_imitates",
    "chunks_spread",
    "fold_chunks",
    "graph_spread",
    "law_report",
    "plan_tree",
    "record_penalties",
    "reuse_plans",
    "sampled_spread",
    "sharded_reduce",
    "sharded_spread",
    "tree_reduce",
]

# From the bottom up: what needs torch only is found without PyG.
_LAYERS = (
    "treefold.algebra",
    "treefold.fold",
    "treefold.operators",
    "treefold.aggr",
    "treefold.incremental",
    "treefold.distributed",
)


def __getattr__(name: str) -> Any:
    """Import a layer when one of its names is first asked for: the command line starts quickly."""
    if name == "algebra":
        return import_module("treefold.algebra")
    if name in __all__:
        for layer in map(import_module, _LAYERS):
            if hasattr(layer, name):
                globals()[name] = getattr(layer, name)
                return globals()[name]
    raise AttributeError(f"module 'treefold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
