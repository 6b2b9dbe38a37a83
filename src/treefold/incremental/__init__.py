"""Incremental sets: aggregates updated in place, folded from streams, trained in chunks."""

from treefold.incremental.chunked import Chunk, fold_chunks
from treefold.incremental.dynamic import DynamicAggregation
from treefold.incremental.fold_tree import FoldTree
from treefold.incremental.layers import Answers, DynamicModel
from treefold.incremental.stability import (
    BracketingStability,
    bracketing_stability,
    graph_stability,
    sampled_stability,
    sharded_stability,
)
from treefold.incremental.streaming import StreamingFold, chunks_stability

__all__ = [
    "Answers",
    "BracketingStability",
    "Chunk",
    "DynamicAggregation",
    "DynamicModel",
    "FoldTree",
    "StreamingFold",
    "bracketing_stability",
    "chunks_stability",
    "fold_chunks",
    "graph_stability",
    "sampled_stability",
    "sharded_stability",
]
