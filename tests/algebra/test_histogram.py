from collections import Counter

import pytest
import torch
from algebra.monoid_cases import fold
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.algebra import Histogram, Mode, identity_like


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_counts_and_mode_are_what_python_says(values):
    x, counts = torch.tensor(values), Counter(values)
    assert fold(Histogram(5), x).tolist() == [[counts[value] for value in range(5)]]
    most = max(counts.values())
    smallest = min(value for value, count in counts.items() if count == most)
    assert Mode(5).decode(fold(Mode(5), x)).tolist() == [smallest]


def test_counts_do_not_overflow_the_type_of_the_values():
    x = torch.ones(300, dtype=torch.uint8)
    assert fold(Histogram(2), x).tolist() == [[0, 300]]


def test_each_feature_has_its_own_mode():
    x = torch.tensor([[0, 2], [1, 2], [1, 0]])
    assert Mode(3).decode(fold(Mode(3), x)).tolist() == [[1, 2]]


def test_of_nothing_the_mode_is_zero():
    assert Mode(3).decode(identity_like(Mode(3), Mode(3).encode(torch.tensor([2])))).item() == 0


def test_only_integers_in_range_are_counted():
    with pytest.raises(ValueError, match=r"only integers can be counted, and x is torch\.float32"):
        Mode(3).encode(torch.tensor([1.0]))
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        Mode(3).encode(torch.tensor([3]))
    with pytest.raises(ValueError, match="0 values"):
        Histogram(0)
