"""Without a gradient to come, pairs are combined in another way, to the same result."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import BRACKETINGS, SIZES, normal, seeded, some

from treefold import BinaryGRU, TableRows, plan_tree, tree_reduce
from treefold.algebra import Sum
from treefold.operators import binary_gru_inference
from treefold.reduction import infer_reduce


@some
@given(SIZES, st.sampled_from([1, 3, 8]), st.booleans(), st.sampled_from(BRACKETINGS))
def test_it_is_the_fold_with_gradients_for_every_tree(sizes, channels, repeats, bracketing):
    op, plan = BinaryGRU(channels).double(), plan_tree(sizes, bracketing, seeded())
    x = TableRows(normal(5, channels), torch.arange(plan.num_rows) % 5)
    x = x if repeats else x.gathered()
    found = infer_reduce(op, x, plan)
    assert not found.requires_grad
    torch.testing.assert_close(found, tree_reduce(op, x, plan).detach())


@pytest.mark.parametrize("chunk", [1, 16, 1 << 15])
def test_runs_of_any_length_give_the_same(monkeypatch, chunk):
    op, plan, x = BinaryGRU(4).double(), plan_tree([37, 1, 0, 8]), normal(46, 4)
    monkeypatch.setattr(binary_gru_inference, "CHUNK", chunk)
    torch.testing.assert_close(infer_reduce(op, x, plan), tree_reduce(op, x, plan).detach())


def test_half_precision_towers_and_other_operators_take_the_usual_way():
    plan = plan_tree([5, 3])
    for x in (normal(8, 2, 4, dtype=torch.float32), normal(8, 4).bfloat16()):
        op = BinaryGRU(4)
        assert torch.equal(infer_reduce(op, x, plan), tree_reduce(op, x, plan).detach())
    x = normal(8, 4)
    assert torch.equal(infer_reduce(Sum(), x, plan), tree_reduce(Sum(), x, plan))


def test_wrong_rows_are_refused():
    with pytest.raises(ValueError, match="7 rows, but the plan is for 8"):
        infer_reduce(BinaryGRU(4).double(), normal(7, 4), plan_tree([8]))
