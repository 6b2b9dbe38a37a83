"""Partial states of Ray Data merge over shallow trees, in whatever order they arrive."""

from math import log2

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import some

pytest.importorskip("ray", reason="the extra `ray` is not installed")

from distributed.ray_warnings import ignored

from treefold.algebra import Sum
from treefold.distributed import ModelFold, MonoidAggregate
from treefold.distributed.aggregate import MOST_STATES, from_bytes, to_bytes

pytestmark = ignored
COUNTS = st.lists(st.integers(1, 1000), min_size=1, max_size=40)


class Depth:
    """States are depths: a merge is one deeper than the deeper of its two states."""

    identity = torch.tensor(0.0)

    def __call__(self, a, b):
        return torch.maximum(a, b) + 1


def aggregate(op):
    return MonoidAggregate(ModelFold(op, torch.zeros(1, 1)), on="x")


@pytest.mark.parametrize("most", [2, 3, MOST_STATES])
@some
@given(counts=COUNTS, random=st.randoms(use_true_random=False))
def test_nothing_is_lost_whatever_the_order_of_merging(most, counts, random):
    add = aggregate(Sum())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("treefold.distributed.aggregate.MOST_STATES", most)
        held = [to_bytes(torch.tensor([n]), torch.full((1, 1), float(n))) for n in counts]
        while len(held) > 1:
            random.shuffle(held)
            held.append(add.combine(held.pop(), held.pop()))
    found, _ = from_bytes(held[0], add.fold.none)
    assert len(found) <= most
    assert int(found.sum()) == sum(counts)
    assert add.finalize(held[0]) == [sum(counts)]


def test_a_chain_of_merges_is_not_a_deep_tree():
    depth, one = aggregate(Depth()), to_bytes(torch.tensor([1]), torch.zeros(1, 1))
    held = one
    for _ in range(4_999):
        held = depth.combine(held, one)
    assert depth.finalize(held)[0] <= 2 * log2(5_000)


@pytest.mark.parametrize("none", [torch.zeros(0, 3), torch.zeros(0, dtype=torch.int32)], ids=str)
def test_an_accumulator_survives_as_bytes(none):
    states = torch.arange(6).to(none.dtype)[: 6 if none.dim() == 2 else 2].view(2, *none.shape[1:])
    counts, again = from_bytes(to_bytes(torch.tensor([5, 1]), states), none)
    assert counts.tolist() == [5, 1]
    assert again.equal(states)
