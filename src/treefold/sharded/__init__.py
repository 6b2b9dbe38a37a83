"""Folds in parts: over processes, and in less memory than all rows need."""

from treefold.sharded.budget import ChunkedPlan, fold_in_budget, plan_chunks
from treefold.sharded.distributed import sharded_reduce
from treefold.sharded.layerwise import GraphChunks, infer_layerwise
from treefold.sharded.neighbours import NeighbourSampler, SampledGraph
from treefold.sharded.shard_plan import ShardPlan, plan_shards, shard_sizes

__all__ = [
    "ChunkedPlan",
    "GraphChunks",
    "NeighbourSampler",
    "SampledGraph",
    "ShardPlan",
    "fold_in_budget",
    "infer_layerwise",
    "plan_chunks",
    "plan_shards",
    "shard_sizes",
    "sharded_reduce",
]
