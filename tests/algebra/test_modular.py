import pytest
import torch
from algebra.monoid_cases import fold
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.algebra import CountModulo, Parity, SumModulo

INTEGER_LISTS = st.lists(st.integers(-50, 50), min_size=1, max_size=10)


@settings(deadline=None)
@given(INTEGER_LISTS, st.integers(1, 9))
def test_folds_are_what_python_says(values, m):
    x = torch.tensor(values)
    assert fold(SumModulo(m), x).tolist() == [sum(values) % m]
    assert fold(CountModulo(m), x).tolist() == [len(values) % m]
    assert fold(Parity(), x).tolist() == [sum(values) % 2]
    assert fold(SumModulo(m), x.float()).tolist() == [sum(values) % m]


def test_the_parity_of_booleans_is_whether_an_odd_number_is_true():
    assert fold(Parity(), torch.tensor([True, True, True])).tolist() == [1]
    assert fold(Parity(), torch.tensor([True, True])).tolist() == [0]


def test_counting_does_not_look_at_the_values():
    assert fold(CountModulo(3), torch.tensor([torch.nan, 0.0, -1.0, 7.0])).tolist() == [1.0]


def test_a_type_that_cannot_hold_the_sum_of_two_residues_is_refused():
    assert fold(SumModulo(64), torch.tensor([63, 63], dtype=torch.int8)).tolist() == [62]
    with pytest.raises(ValueError, match=r"int8 cannot hold 2 · 64 exactly; widen x"):
        SumModulo(65).encode(torch.tensor([63], dtype=torch.int8))
    with pytest.raises(ValueError, match=r"float16 cannot hold"):
        CountModulo(5000).encode(torch.tensor([1.0], dtype=torch.float16))


@pytest.mark.parametrize("monoid", [SumModulo, CountModulo])
def test_the_modulus_must_be_positive(monoid):
    with pytest.raises(ValueError, match="m = 0 is no modulus"):
        monoid(0)


def test_parity_shows_as_itself():
    assert repr(Parity()) == "Parity()"
    assert Parity().m == 2
