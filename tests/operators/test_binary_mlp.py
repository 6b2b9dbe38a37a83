import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from trees import normal

from treefold.algebra import COMMUTATIVITY
from treefold.operators import BinaryMLP


def make(**options):
    torch.manual_seed(0)
    return BinaryMLP(4, **options).double()


def perceptron(op, first, second):
    """f(first, second), its inner weights taken apart again."""
    weights, biases = op.inner.weight.chunk(2), op.inner.bias.chunk(2)
    hidden = first @ weights[0].t() + biases[0] + second @ weights[1].t() + biases[1]
    return nn.functional.gelu(hidden) @ op.outer.weight.t() + op.outer.bias


def test_it_is_half_the_sum_of_both_arguments_and_of_a_perceptron_in_both_orders():
    op, a, b = make(), normal(9, 4, seed=1), normal(9, 4, seed=2)
    expected = (a + b) / 2 + (perceptron(op, a, b) + perceptron(op, b, a)) / 2
    torch.testing.assert_close(op(a, b), expected)
    assert not torch.allclose(perceptron(op, a, b), perceptron(op, b, a))


def test_it_is_commutative():
    a, b = normal(50, 4, seed=1), normal(50, 4, seed=2)
    COMMUTATIVITY.assert_holds(make(), a, b, atol=1e-14)


def test_the_hidden_layer_is_twice_as_wide_unless_told_otherwise():
    assert make().outer.in_features == 8
    assert make(hidden_channels=5).outer.in_features == 5


def test_its_gradients_are_those_of_finite_differences():
    op = BinaryMLP(2, hidden_channels=2).double()
    arguments = [normal(2, 2, seed=seed).requires_grad_() for seed in (1, 2)]
    inputs = (*arguments, *list(op.parameters()))
    assert gradcheck(lambda a, b, *_: op(a, b), inputs)
    assert gradgradcheck(lambda a, b, *_: op(a, b), inputs[:-1])  # the identity takes no part
