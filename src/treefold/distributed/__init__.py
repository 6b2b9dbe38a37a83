"""Folds in parts: over processes, and in less memory than all rows need."""

from treefold.distributed.budget import ChunkedPlan, fold_in_budget, plan_chunks
from treefold.distributed.processes import sharded_reduce
from treefold.distributed.layerwise import GraphChunks, infer_layerwise
from treefold.distributed.neighbours import NeighbourSampler, SampledGraph
from treefold.distributed.shard_plan import ShardPlan, plan_shards, shard_sizes

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
