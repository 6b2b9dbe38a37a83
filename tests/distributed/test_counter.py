"""Partial states merge over shallow trees, in whatever order they arrive."""

from math import log2

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from trees import some

pytest.importorskip("numpy", reason="counters are packed with numpy")

from treefold.algebra import Sum
from treefold.distributed.counter import Counter

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
    counters = [Counter.of(torch.full((1, 2), float(count)), count) for count in counts]
    while len(counters) > 1:
        random.shuffle(counters)
        counters.append(counters.pop().merged(counters.pop(), ADD))
    assert counters[0].total(ADD).tolist() == [[sum(counts)] * 2]
    assert sum(counters[0].counts) == sum(counts)


@some
@given(COUNTS)
def test_no_two_states_stand_for_about_as_many_rows(counts):
    counter = Counter.of(torch.zeros(1, 1), counts[0])
    for count in counts[1:]:
        counter = counter.merged(Counter.of(torch.zeros(1, 1), count), ADD)
    digits = [count.bit_length() for count in counter.counts]
    assert digits == sorted(set(digits), reverse=True)


def test_a_chain_of_merges_is_not_a_deep_tree():
    counter = Counter.of(torch.zeros(1, 1), 1)
    for _ in range(999):
        counter = counter.merged(Counter.of(torch.zeros(1, 1), 1), DEPTH)
    assert float(counter.total(DEPTH)) <= 2 * log2(1000)


def test_a_counter_survives_as_bytes():
    counter = Counter.of(torch.randn(1, 3), 5).merged(Counter.of(torch.randn(1, 3), 1), ADD)
    again = Counter.from_bytes(counter.to_bytes())
    assert again.counts == counter.counts == (5, 1)
    assert torch.equal(torch.cat(again.states), torch.cat(counter.states))
