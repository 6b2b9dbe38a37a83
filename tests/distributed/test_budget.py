"""Folds in chunks are the folds of all rows at once, tree and all."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import normal, some

from treefold import BinaryGRU, Groups, plan_tree, tree_reduce
from treefold.algebra import Sum
from treefold.distributed import fold_in_budget, plan_chunks
from treefold.distributed.budget import rows_within


class Bent:
    """Neither associative nor commutative, number by number: its bits tell the tree."""

    identity = torch.tensor(0.5, dtype=torch.float64)

    def __call__(self, a, b):
        return 0.9 * a + 1.25 * b - a * b / 8


@some
@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(2, 50), st.integers(0, 5))
def test_chunks_and_pieces_give_every_bit_of_the_whole(sizes, most, seed):
    generator = torch.Generator().manual_seed(seed)
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    groups = Groups.from_index(index[torch.randperm(len(index), generator=generator)], len(sizes))
    table = normal(10, 3)
    rows = torch.randint(0, 10, (len(index),), generator=generator)
    plan = plan_chunks(groups, most)
    whole = tree_reduce(Bent(), table[rows][groups.order], plan_tree(groups.sizes))
    assert torch.equal(plan.fold(Bent(), table, rows), whole)
    assert all(chunk.plan.num_rows <= most for chunk in plan.chunks)
    assert plan.num_applications == plan_tree(sizes).num_applications


def test_one_plan_serves_every_layer():
    groups = Groups.from_sizes([5, 0, 1, 900, 3])
    table, rows = normal(20, 4), torch.arange(909) % 20
    plan = plan_chunks(groups, 64)
    assert len(plan.chunks) > 10
    for seed in range(2):
        torch.manual_seed(seed)
        op = BinaryGRU(4).double()
        whole = tree_reduce(op, table[rows], plan_tree(groups.sizes)).detach()
        torch.testing.assert_close(plan.fold(op, table, rows), whole)


def test_the_budget_decides_how_many_rows_are_there_at_once():
    table, sizes = torch.randn(50, 16), [30_000, 10, 1]
    groups, rows = Groups.from_sizes(sizes), torch.arange(30_011) % 50
    seen = []

    class Watched(Sum):
        def __call__(self, a, b):
            seen.append(a.shape[0])
            return super().__call__(a, b)

    out = fold_in_budget(Watched(), table, rows, groups, 256_000)
    torch.testing.assert_close(
        out, torch.stack([table[part].sum(0) for part in rows.split(sizes)]), rtol=1e-4, atol=1e-3
    )
    assert max(seen) <= rows_within(256_000, table) // 2 + 1
    assert rows_within(256_000, table) == 256_000 // (3 * 64 + 48)


def test_wrong_input_is_refused_before_work():
    groups, table = Groups.from_sizes([3]), torch.randn(4, 8)
    with pytest.raises(ValueError, match=r"2 rows, but the groups are for 3"):
        fold_in_budget(Sum(), table, torch.tensor([0, 1]), groups, 1 << 20)
    with pytest.raises(ValueError, match=r"100 bytes is less than two rows need; give at least"):
        fold_in_budget(Sum(), table, torch.tensor([0, 1, 2]), groups, 100)
    with pytest.raises(ValueError, match=r"rows are torch.float32 .* expected integers"):
        fold_in_budget(Sum(), table, torch.tensor([0.0, 1.0, 2.0]), groups, 1 << 20)
    with pytest.raises(ValueError, match=r"rows hold 4, but the table has 4 rows; .* 0 to 3"):
        fold_in_budget(Sum(), table, torch.tensor([0, 1, 4]), groups, 1 << 20)
    with pytest.raises(ValueError, match="rows hold -1"):
        plan_chunks(groups, 8).fold(BinaryGRU(8), table, torch.tensor([0, -1, 2]))
    with pytest.raises(ValueError, match="1 rows per chunk"):
        plan_chunks(groups, 1)
