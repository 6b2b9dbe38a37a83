"""Living sets: what only a monoid can do, updated in place and folded from streams."""

from treefold.incremental.chunked import (
    Chunk,
    fold_chunks,
)
from treefold.incremental.dynamic import (
    DynamicAggregation,
)
from treefold.incremental.fold_tree import (
    FoldTree,
)
from treefold.incremental.stability import (
    sampled_spread,
    sharded_spread,
)
from treefold.incremental.stability import (
    BracketingSpread,
    bracketing_spread,
)
from treefold.incremental.stability import (
    chunks_spread,
    graph_spread,
)
from treefold.incremental.streaming import (
    StreamingFold,
)

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
