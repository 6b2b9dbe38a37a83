"""Partial states merge over shallow trees, in whatever order they arrive."""

from math import log2

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import some

pytest.importorskip("ray", reason="the extra `ray` is not installed")

from distributed.ray_warnings import ignored

from treefold.algebra import Sum
from treefold.distributed.aggregate import from_bytes, merged, to_bytes, total

pytestmark = ignored
COUNTS = st.lists(st.integers(1, 1000), min_size=1, max_size=40)


class Depth:
    """States are depths: a merge is one deeper than the deeper of its two states."""

    identity = torch.tensor(0.0)

    def __call__(self, a, b):
        return torch.maximum(a, b) + 1


ADD, DEPTH = Sum(), Depth()


@some
@given(COUNTS, st.randoms(use_true_random=False))
def test_nothing_is_lost_whatever_the_order_of_merging(counts, random):
    counters = [[(count, torch.full((1, 2), float(count)))] for count in counts]
    while len(counters) > 1:
        random.shuffle(counters)
        counters.append(merged(counters.pop(), counters.pop(), ADD))
    assert total(counters[0], ADD).tolist() == [[sum(counts)] * 2]
    assert sum(count for count, _ in counters[0]) == sum(counts)


@some
@given(COUNTS)
def test_no_two_states_stand_for_about_as_many_rows(counts):
    counter = [(counts[0], torch.zeros(1, 1))]
    for count in counts[1:]:
        counter = merged(counter, [(count, torch.zeros(1, 1))], ADD)
    digits = [count.bit_length() for count, _ in counter]
    assert digits == sorted(set(digits), reverse=True)


def test_a_chain_of_merges_is_not_a_deep_tree():
    counter = [(1, torch.zeros(1, 1))]
    for _ in range(999):
        counter = merged(counter, [(1, torch.zeros(1, 1))], DEPTH)
    assert float(total(counter, DEPTH)) <= 2 * log2(1000)


@pytest.mark.parametrize("none", [torch.zeros(0, 3), torch.zeros(0, dtype=torch.int32)], ids=str)
def test_a_counter_survives_as_bytes(none):
    states = torch.arange(6).to(none.dtype)[: 6 if none.dim() == 2 else 2]
    counter = [*zip((5, 1), states.view(2, *none.shape[1:]).split(1), strict=True)]
    again = from_bytes(to_bytes(counter), none)
    assert [count for count, _ in again] == [5, 1]
    assert all(a.equal(b) for (_, a), (_, b) in zip(again, counter, strict=True))
