"""Cuts of shards, the parts that each sends, and requests that are refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import some

from treefold.distributed import plan_shards, shard_sizes


@some
@given(st.lists(st.integers(0, 500), min_size=1, max_size=5), st.sampled_from([1, 2, 4, 8]))
def test_shards_cut_where_the_tree_is_cut_send_one_part_per_group(totals, num_shards):
    sizes = shard_sizes(torch.tensor(totals), num_shards)
    assert sizes.sum(0).tolist() == totals
    assert plan_shards(sizes, 0).parts_per_shard == tuple((sizes > 0).sum(1).tolist())


@some
@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=4))
def test_each_row_is_applied_to_once_over_all_shards(sizes):
    sizes = torch.tensor(sizes)
    for bracketing in ("balanced", "by-shard"):
        plans = [plan_shards(sizes, shard, bracketing) for shard in range(len(sizes))]
        here = sum(plan.here.num_applications for plan in plans)
        needed = int((sizes.sum(0) - 1).clamp(min=0).sum())
        assert here + plans[0].join.num_applications == needed
        assert [plan.here.num_groups for plan in plans] == list(plans[0].parts_per_shard)


def test_shards_cut_elsewhere_send_more_parts_unless_told_not_to():
    sizes = torch.tensor([[1000], [1], [23]])
    assert sum(plan_shards(sizes, 0).parts_per_shard) > 3
    assert plan_shards(sizes, 0, "by-shard").parts_per_shard == (1, 1, 1)


def test_wrong_requests_say_what_to_do():
    sizes = torch.tensor([[2], [3]])
    with pytest.raises(ValueError, match="choose from balanced, by-shard"):
        plan_shards(sizes, 0, "carry")
    with pytest.raises(ValueError, match=r"4,294,967,296 rows; expected fewer"):
        plan_shards(torch.tensor([[1 << 31], [1 << 31]]), 0)
    with pytest.raises(ValueError, match="0 shards; expected at least 1"):
        shard_sizes(torch.tensor([3]), 0)
