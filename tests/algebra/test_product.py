import pytest
import torch
from algebra.monoid_cases import fold

from treefold.algebra import Max, Mean, Min, Product, Sum


def test_a_product_answers_all_questions_in_one_pass():
    monoid = Product(Min(), Product(Max(), Mean()))
    low, (high, mean) = monoid.decode(fold(monoid, torch.tensor([4.0, 1.0, 4.0])))
    assert (low.item(), high.item(), mean.item()) == (1.0, 4.0, 3.0)


def test_a_product_shows_and_compares_by_its_components():
    assert repr(Product(Sum(), Max(bottom=0.0))) == "Product(Sum(), Max(bottom=0.0))"
    assert Product(Sum(), Max()) == Product(Sum(), Max())
    assert Product(Sum(), Max()) != Product(Max(), Sum())


def test_a_product_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Product()
