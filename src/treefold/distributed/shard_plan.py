"""Plans for folds over shards: which shard folds which part of a group."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from treefold.fold import Subtrees, TreePlan, cut_trees, plan_joining, plan_tree
from treefold.shapes import Int

ShardBracketing: TypeAlias = Literal["balanced", "by-shard"] | str

MAX_ROWS = 1 << 31
"""Rows of one group over all shards, to let products of row and slot numbers fit 63 bits."""


@dataclass(frozen=True, eq=False)
class ShardPlan:
    """A plan to fold one shard's rows to parts, and to join the parts of all shards."""

    here: TreePlan
    """This shard's rows, group by group, to its parts."""
    parts_per_shard: tuple[int, ...]
    """The number of parts of each shard."""
    by_group: Int[Tensor, " parts"]
    """The parts of all shards, one shard after the other, brought together by group."""
    join: TreePlan
    """The parts in that order to groups."""


def plan_shards(
    sizes: Int[Tensor, " shards groups"], shard: int, bracketing: ShardBracketing = "balanced"
) -> ShardPlan:
    """Plan a fold whose group g has `sizes[s, g]` rows on shard s, in the order of shards.

    - `"balanced"`: the tree that one machine would fold, whatever the cuts. A shard sends one part
      per group if it is cut by `shard_sizes`, with a power of two of shards; else up to
      2 log2 n parts for n rows.
    - `"by-shard"`: a balanced tree over each shard's rows, and one over the shards that have some.
      A shard always sends one part per group, and the tree depends on the cuts.
    """
    if bracketing not in ("balanced", "by-shard"):
        raise ValueError(f"unknown bracketing {bracketing!r}; choose from balanced, by-shard")
    totals = sizes.sum(0)
    if bool((totals >= MAX_ROWS).any()):
        raise ValueError(
            f"a group has {int(totals.max()):,} rows; expected fewer than {MAX_ROWS:,}: "
            "split the group, or fold shards by themselves and then their states"
        )
    num_shards, num_groups = sizes.shape
    if bracketing == "by-shard":
        runs = sizes.flatten().nonzero().squeeze(1)
        here = plan_tree(sizes[shard][sizes[shard] > 0])
        groups = runs % num_groups
        by_group = groups.argsort(stable=True)
        join = plan_tree((sizes > 0).sum(0))
    else:
        parts = _parts(sizes, totals)
        runs, groups = parts.runs, parts.runs % num_groups
        here = parts[(runs // num_groups == shard).nonzero().squeeze(1)].plan()
        by_group = groups.argsort(stable=True)
        join = plan_joining(parts[by_group], groups[by_group], num_groups)
    counts = torch.bincount(runs // max(1, num_groups), minlength=num_shards)
    return ShardPlan(here, tuple(counts.tolist()), by_group, join)


def shard_sizes(totals: Int[Tensor, " groups"], num_shards: int) -> Int[Tensor, " shards groups"]:
    """Choose the number of rows of each group on each shard: cuts at ⌊s n / num_shards⌋.

    Where `num_shards` is a power of two these are the cuts of the balanced tree.
    """
    if num_shards < 1:
        raise ValueError(f"{num_shards} shards; expected at least 1")
    cuts = torch.arange(num_shards + 1, device=totals.device).unsqueeze(1)
    return (cuts * totals // num_shards).diff(dim=0)


def _parts(sizes: Tensor, totals: Tensor) -> Subtrees:
    high = sizes.cumsum(0)
    return cut_trees(totals.expand_as(sizes).flatten(), (high - sizes).flatten(), high.flatten())
