import pytest
import torch
from torch import nn
from trees import BRACKETINGS, normal, reference_reduce, seeded, weighted

from treefold.algebra import MONOID_LAWS, Max, Mean, Min, Sum
from treefold.fold import fold_levels, plan_tree, tree_fold, tree_reduce
from treefold.operators import Conjugated, CouplingFlow

RAGGED = [3, 0, 1, 8, 5, 2, 0, 1]
TOTAL = sum(RAGGED)
BOTTOM = -4.0


def make(kind):
    torch.manual_seed(0)
    op = getattr(Conjugated, kind)(4).double()
    for parameter in op.parameters():  # far from the identity, as after training
        nn.init.normal_(parameter, std=0.4)
    return op


def elements(op, num_elements, seed=0):
    """Elements of the monoid: for maxima, those that the bijection carries above the bottom."""
    values = normal(num_elements, 4, seed=seed)
    return op.bijection.inverse(values.abs() * 3 + BOTTOM if isinstance(op.monoid, Max) else values)


kinds = pytest.mark.parametrize("kind", ["sum", "max"])


@kinds
@pytest.mark.parametrize("law", MONOID_LAWS, ids=lambda law: law.name)
def test_every_law_holds_by_construction(kind, law):
    op = make(kind)
    law.assert_holds(op, *(elements(op, 200, seed) for seed in range(law.arity)))


def test_it_is_the_monoid_seen_through_the_bijection():
    a, b = normal(9, 4, seed=1), normal(9, 4, seed=2)
    op = make("sum")
    there, back = op.bijection, op.bijection.inverse
    torch.testing.assert_close(op(a, b), back(there(a) + there(b)))
    torch.testing.assert_close(op.identity, back(torch.zeros(4).double()))
    op = make("max")
    there, back = op.bijection, op.bijection.inverse
    torch.testing.assert_close(op(a, b), back(torch.maximum(there(a), there(b)).clamp(min=BOTTOM)))
    torch.testing.assert_close(op.identity, back(torch.full((4,), BOTTOM).double()))


def test_values_below_the_bottom_are_raised_to_it():
    op = Conjugated.max(4, bottom=-1.0).double()
    low = op.bijection.inverse(torch.full((1, 4), -5.0).double())
    torch.testing.assert_close(op(low, low)[0], op.identity)


@kinds
@pytest.mark.parametrize("bracketing", BRACKETINGS)
def test_its_fold_is_that_of_the_reference(kind, bracketing):
    op, plan = make(kind), plan_tree(RAGGED, bracketing, seeded())
    x = normal(TOTAL, 4).requires_grad_()
    fast, slow = tree_reduce(op, x, plan), reference_reduce(op, x, RAGGED, bracketing, plan)
    torch.testing.assert_close(fast, slow)
    wanted = [x, *op.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(weighted(fast), wanted), torch.autograd.grad(weighted(slow), wanted)
    )


@kinds
def test_its_nodes_are_those_of_the_plain_fold(kind):
    op, x, plan = make(kind), normal(TOTAL, 4), plan_tree(RAGGED)
    torch.testing.assert_close(tree_fold(op, x, plan).nodes, fold_levels(op, x, plan).nodes)


@kinds
def test_every_bracketing_comes_to_the_same(kind):
    op = make(kind)
    x = elements(op, TOTAL)
    first, *others = (
        tree_reduce(op, x, plan_tree(RAGGED, bracketing, seeded())) for bracketing in BRACKETINGS
    )
    for other in others:
        torch.testing.assert_close(other, first)


class Cube(nn.Module):
    """A bijection with nothing to learn."""

    def forward(self, x):
        return x**3

    def inverse(self, y):
        return y.sign() * y.abs() ** (1 / 3)


def test_the_bijection_may_be_any_with_an_inverse():
    op = Conjugated(Sum(), Cube(), channels=2)
    a, b = torch.tensor([[3.0, -1.0]]), torch.tensor([[4.0, 0.0]])
    torch.testing.assert_close(op(a, b), torch.tensor([[91 ** (1 / 3), -1.0]]))
    out = tree_reduce(op, torch.cat([a, b]), plan_tree([2, 0]))
    torch.testing.assert_close(out, torch.tensor([[91 ** (1 / 3), -1.0], [0.0, 0.0]]))


def test_each_row_goes_through_the_bijection_once():
    calls = {"forward": 0, "inverse": 0}

    class Counting(CouplingFlow):
        def forward(self, x):
            calls["forward"] += x.shape[0]
            return super().forward(x)

        def inverse(self, y):
            calls["inverse"] += y.shape[0] if y.dim() > 1 else 0
            return super().inverse(y)

    plan = plan_tree(RAGGED)
    x = normal(TOTAL, 4, dtype=torch.float32)
    tree_reduce(Conjugated(Sum(), Counting(4), 4), x, plan)
    assert calls == {"forward": TOTAL, "inverse": plan.num_applications}


@pytest.mark.parametrize(
    ("monoid", "found"),
    [
        (Max(), r"the identity of Max\(bottom=-inf\) is tensor\(-inf"),
        (Min(), r"the identity of Min\(top=inf\) is tensor\(inf"),
        (Mean(), r"the identity of Mean\(\) is \(tensor"),
    ],
)
def test_a_monoid_whose_identity_is_no_finite_tensor_is_refused(monoid, found):
    with pytest.raises(ValueError, match=f"{found}.*; expected a finite tensor"):
        Conjugated(monoid, CouplingFlow(4), 4)


def test_one_channel_is_refused():
    for make_one in (Conjugated.sum, Conjugated.max):
        with pytest.raises(ValueError, match="1 channel cannot be cut in halves"):
            make_one(1)
