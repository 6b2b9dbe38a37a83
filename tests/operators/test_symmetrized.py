import pytest
import torch
from torch import nn
from trees import normal

from treefold.algebra import COMMUTATIVITY
from treefold.fold import plan_tree, tree_reduce
from treefold.operators import BinaryGRU, Symmetrized

A, B = normal(9, 4, seed=1), normal(9, 4, seed=2)


class Skewed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4).double(), nn.Linear(4, 4).double()

    def forward(self, a, b):
        return torch.tanh(self.first(a)) * self.second(b)


def test_a_module_is_averaged_over_both_orders():
    skewed = Skewed()
    op = Symmetrized(skewed, 4)
    assert not torch.allclose(skewed(A, B), skewed(B, A))
    torch.testing.assert_close(op(A, B), (skewed(A, B) + skewed(B, A)) / 2)
    COMMUTATIVITY.assert_holds(op, A, B, atol=1e-14)


def test_a_function_is_averaged_over_both_orders():
    op = Symmetrized(lambda a, b: a - 3 * b, 4)
    torch.testing.assert_close(op(A, B), -A - B)


def test_torchs_own_two_argument_modules_will_do():
    bilinear = nn.Bilinear(4, 4, 4).double()
    torch.testing.assert_close(
        Symmetrized(bilinear, 4)(A, B), (bilinear(A, B) + bilinear(B, A)) / 2
    )


def test_a_gru_cell_symmetrized_is_the_binary_gru():
    expected = BinaryGRU(4).double()
    torch.testing.assert_close(Symmetrized(expected.cell, 4)(A, B), expected(A, B))


def test_both_orders_take_one_call():
    calls = []

    def function(a, b):
        calls.append(a.shape)
        return a

    Symmetrized(function, 4)(A, B)
    assert len(calls) == 1


def test_parameters_of_the_function_and_the_identity_are_learned():
    op = Symmetrized(Skewed(), 4)
    names = {name for name, _ in op.named_parameters()}
    assert names == {
        "identity",
        *(
            f"function.{layer}.{kind}"
            for layer in ("first", "second")
            for kind in ("weight", "bias")
        ),
    }


def test_resetting_reaches_the_function_if_it_knows_how():
    op = Symmetrized(nn.Bilinear(4, 4, 4), 4)
    before = op.function.weight.clone()
    nn.init.ones_(op.identity)
    op.reset_parameters()
    assert not torch.equal(op.function.weight, before)
    assert op.identity.tolist() == [0.0] * 4
    Symmetrized(torch.add, 4).reset_parameters()  # which knows nothing of resets


def test_it_folds():
    op = Symmetrized(torch.add, 4)  # half the sum of a + b and b + a, so the sum
    out = tree_reduce(op, A, plan_tree([4, 0, 5]))
    torch.testing.assert_close(out, torch.stack([A[:4].sum(0), A[:0].sum(0), A[4:].sum(0)]))


GLOBAL = nn.Linear(8, 4)


def test_a_function_with_parameters_that_nobody_would_train_is_refused():
    linear = nn.Linear(8, 4)
    with pytest.raises(ValueError, match=r"uses linear, a Linear, which optimisers .* would not"):
        Symmetrized(lambda a, b: linear(torch.cat([a, b], -1)), 4)
    with pytest.raises(ValueError, match="uses GLOBAL, a Linear"):
        Symmetrized(lambda a, b: GLOBAL(torch.cat([a, b], -1)), 4)
