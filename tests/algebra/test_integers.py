import math
from functools import reduce
from operator import or_, xor

import torch
from algebra.monoid_cases import fold
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.algebra import IDENTITY, BitwiseOr, BitwiseXor, Gcd

INTEGER_LISTS = st.lists(st.integers(-1000, 1000), min_size=1, max_size=8)


@settings(deadline=None)
@given(INTEGER_LISTS)
def test_folds_are_what_python_says(values):
    x = torch.tensor(values)
    assert fold(BitwiseXor(), x).tolist() == [reduce(xor, values)]
    assert fold(BitwiseOr(), x).tolist() == [reduce(or_, values)]
    assert fold(Gcd(), x).tolist() == [math.gcd(*values)]


def test_divisors_are_those_of_the_absolute_value():
    encoded = Gcd().encode(torch.tensor([-4, 0, 6]))
    assert encoded.tolist() == [4, 0, 6]
    IDENTITY.assert_holds(Gcd(), encoded)


def test_exclusive_or_of_booleans_stays_boolean():
    out = fold(BitwiseXor(), torch.tensor([True, True, True]))
    assert out.tolist() == [True]
    assert out.dtype == torch.bool
