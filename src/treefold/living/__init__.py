"""Living sets: what only a monoid can do, updated in place and folded from streams."""

from treefold.living.chunked import Chunk, fold_chunks
from treefold.living.dynamic import DynamicAggregation
from treefold.living.fold_tree import FoldTree
from treefold.living.spread import BracketingSpread, bracketing_spread
from treefold.living.spread_again import chunks_spread, graph_spread
from treefold.living.spread_of_groups import sampled_spread, sharded_spread
from treefold.living.streaming import StreamingFold

__all__ = [
    "BracketingSpread",
    "Chunk",
    "DynamicAggregation",
    "FoldTree",
    "StreamingFold",
    "bracketing_spread",
    "chunks_spread",
    "fold_chunks",
    "graph_spread",
    "sampled_spread",
    "sharded_spread",
]
