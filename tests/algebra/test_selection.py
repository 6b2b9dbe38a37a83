import math

import pytest
import torch
from algebra.monoid_cases import fold
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.algebra import KthMinimum, TopK, identity_like

INTEGER_LISTS = st.lists(st.integers(-5, 5), min_size=1, max_size=8)


@settings(deadline=None)
@given(INTEGER_LISTS, st.integers(1, 4))
def test_the_kth_minimum_is_the_kth_of_the_sorted_values(values, k):
    monoid = KthMinimum(k)
    padded = sorted(values) + [math.inf] * k
    floats = monoid.decode(fold(monoid, torch.tensor(values, dtype=torch.float32)))
    assert floats.tolist() == [padded[k - 1]]
    integers = monoid.decode(fold(monoid, torch.tensor(values)))
    assert integers.tolist() == [min(padded[k - 1], torch.iinfo(torch.int64).max)]


@settings(deadline=None)
@given(INTEGER_LISTS, st.integers(1, 4))
def test_the_top_k_are_the_largest_in_descending_order(values, k):
    monoid = TopK(k)
    padded = sorted(values, reverse=True) + [-math.inf] * k
    floats = monoid.decode(fold(monoid, torch.tensor(values, dtype=torch.float32)))
    assert floats.tolist() == [padded[:k]]
    lowest = torch.iinfo(torch.int64).min
    integers = monoid.decode(fold(monoid, torch.tensor(values)))
    assert integers.tolist() == [[max(value, lowest) for value in padded[:k]]]


def test_the_papers_second_minimum_step_by_step():
    monoid = KthMinimum()
    a = monoid.encode(torch.tensor([3, 1]))
    top = torch.iinfo(torch.int64).max
    assert a.tolist() == [[3, top], [1, top]]
    assert monoid(a, monoid.encode(torch.tensor([2, 1]))).tolist() == [[2, 3], [1, 1]]
    assert monoid.decode(monoid(a, monoid.encode(torch.tensor([2, 1])))).tolist() == [3, 1]


def test_of_nothing_all_k_are_infinite():
    like = torch.zeros(1, 3)
    assert identity_like(KthMinimum(3), like).tolist() == [[math.inf] * 3]
    assert identity_like(TopK(3), like).tolist() == [[-math.inf] * 3]


def test_the_gradient_goes_to_the_element_selected():
    x = torch.tensor([4.0, 1.0, 3.0], requires_grad=True)
    KthMinimum(2).decode(fold(KthMinimum(2), x)).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("monoid", [KthMinimum, TopK])
def test_k_must_be_positive(monoid):
    with pytest.raises(ValueError, match="k = 0"):
        monoid(0)
