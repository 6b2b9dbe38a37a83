"""Folds in parts: over processes, and in less memory than all rows need."""

from treefold.sharded.distributed import sharded_reduce
from treefold.sharded.shard_plan import ShardPlan, plan_shards, shard_sizes

__all__ = ["ShardPlan", "plan_shards", "shard_sizes", "sharded_reduce"]
