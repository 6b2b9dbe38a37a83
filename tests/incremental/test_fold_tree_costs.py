"""An update of a fold tree costs O(log n) applications, and memory follows the elements."""

from math import ceil, log2

import pytest
import torch
from incremental.operators_for_tests import Counting, CountingTrees, integers
from incremental.scratch import from_scratch
from trees import normal

from treefold.algebra import Max, Sum
from treefold.fold import Groups
from treefold.incremental import FoldTree
from treefold.operators import BinaryGRU


@pytest.mark.parametrize("size", [2, 3, 64, 65, 1000])
def test_one_update_costs_the_height_of_the_tree(size):
    op = Counting(Sum())
    tree = FoldTree(op, integers(size, 2))
    assert op.counted() == size - 1
    height = ceil(log2(size))
    for handle in (0, size // 2, size - 1):
        tree.replace(handle, integers(1, 2))
        assert op.counted() <= height
    (new,) = tree.insert(integers(1, 2)).tolist()
    assert op.counted() <= ceil(log2(size + 1))
    tree.remove(new)
    assert op.counted() <= height
    tree.remove(0)  # the last element moves to its place
    assert op.counted() <= 2 * height


@pytest.mark.parametrize("size", [2, 3, 64, 65, 1000])
def test_a_path_that_is_folded_at_once_costs_no_more(size):
    op = CountingTrees(BinaryGRU(2).double())
    tree = FoldTree(op, normal(size, 2))
    assert op.counted() == size - 1
    height = ceil(log2(size))
    for handle in (0, size // 2, size - 1):
        op.calls = 0
        tree.replace(handle, normal(1, 2, seed=handle + 1))
        assert op.counted() <= height
        assert op.calls == 1
    assert tree.value().allclose(from_scratch(tree))
    op.counted()
    (new,) = tree.insert(normal(1, 2, seed=5)).tolist()
    assert op.counted() <= ceil(log2(size + 1))
    tree.remove(new)
    assert op.counted() <= height
    tree.remove(0)
    assert op.counted() <= 2 * height
    assert tree.value().allclose(from_scratch(tree))


def test_growing_one_by_one_costs_a_logarithm_each_and_shrinking_twice_that():
    op = Counting(Sum())
    tree = FoldTree(op, integers(0, 2))
    for size in range(1, 80):
        tree.insert(integers(1, 2))
        assert op.counted() <= ceil(log2(size))
    for size in range(79, 0, -1):
        tree.remove(tree.handles()[size // 3])
        assert op.counted() <= 2 * ceil(log2(size))


def test_updates_together_meet_level_by_level():
    op = Counting(Sum())
    tree = FoldTree(op, integers(4096, 2), Groups.from_sizes([1024] * 4))
    op.calls = op.applications = 0
    tree.replace(torch.arange(0, 4096, 8), integers(512, 2))
    assert op.calls <= 10
    assert op.applications == 512 * 3 + 4 * 127  # no ancestor twice
    tree.replace(torch.arange(4096), integers(4096, 2))
    assert tree.value().equal(from_scratch(tree))


def test_memory_follows_the_elements():
    tree = FoldTree(Max(), torch.randn(1 << 12, 8))
    full = tree.num_bytes
    states = 2 * (1 << 12) * 8 * 4
    assert states <= full <= 1.5 * states
    tree.remove(torch.arange(32, 1 << 12))
    assert tree.num_bytes < full / 2  # what is left belongs to handles
    for _ in range(5):
        tree.insert(torch.randn(1000, 8))
    assert tree.num_bytes <= 2.5 * full
