import pytest
import torch
from torch import nn
from trees import BRACKETINGS, normal, reference_reduce, seeded, weighted

from treefold.algebra import (
    ASSOCIATIVITY,
    COMMUTATIVITY,
    FORMAL_IDENTITY,
    IDENTITY,
    Law,
    Max,
    Mean,
    Min,
    Sum,
)
from treefold.fold import fold_levels, plan_tree, tree_fold, tree_reduce
from treefold.operators import Conjugated, CouplingFlow

RAGGED = [3, 0, 1, 8, 5, 2, 0, 1]
TOTAL = sum(RAGGED)
BOTTOM = -4.0
SCALES = [1e-3, 1.0, 30.0, 1e3]
LAWS = [FORMAL_IDENTITY, COMMUTATIVITY, ASSOCIATIVITY]
IDEMPOTENCE = Law("idempotence", 1, lambda op, a: (op(a, a), a))


def make(kind, channels=4):
    torch.manual_seed(0)
    if kind == "min":
        op = Conjugated(Min(top=4.0), CouplingFlow(channels), channels).double()
    else:
        op = getattr(Conjugated, kind)(channels).double()
    for parameter in op.parameters():  # far from the identity, as after training
        nn.init.normal_(parameter, std=0.4)
    return op


kinds = pytest.mark.parametrize("kind", ["sum", "max"])
selections = pytest.mark.parametrize("kind", ["max", "min"])
scales = pytest.mark.parametrize("scale", SCALES)


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@scales
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_every_law_holds_by_construction_for_rows_of_any_size(kind, law, scale):
    rows = [scale * normal(200, 4, seed=seed) for seed in range(law.arity)]
    law.assert_holds(make(kind), *rows, rtol=1e-9)


@kinds
@scales
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_single_precision_holds_every_law_to_rounding(kind, law, scale):
    torch.manual_seed(0)
    op = getattr(Conjugated, kind)(8)
    law.assert_holds(op, *scale * torch.randn(law.arity, 200, 8), rtol=2e-4, atol=0.0)


@scales
def test_of_a_sum_e_is_an_identity_among_the_elements_too(scale):
    IDENTITY.assert_holds(make("sum"), scale * normal(200, 4), rtol=1e-9)


@selections
@scales
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_an_element_that_meets_itself_is_itself_bit_for_bit(kind, scale, dtype):
    op, x = make(kind).to(dtype), (scale * normal(50, 4)).to(dtype)
    IDEMPOTENCE.assert_holds(op, x, rtol=0.0, atol=0.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        IDEMPOTENCE.assert_holds(op.float(), x.float(), rtol=0.0, atol=0.0)


@selections
@scales
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("channels", [4, 8, 13])
def test_the_fold_of_copies_is_the_element_bit_for_bit(kind, scale, dtype, channels):
    op, x = make(kind, channels).to(dtype), (scale * normal(4, 2, channels)).to(dtype)
    copies = torch.tensor([0] * 7 + [1] * 2 + [2] + [3] * 4)
    assert tree_reduce(op, x[copies], plan_tree([7, 2, 1, 4])).equal(x)
    for count in range(2, 12):  # products of so many rows round the last ones in another way
        one = x[:1, 0].expand(count, -1)
        assert tree_reduce(op, one, plan_tree([count])).equal(x[:1, 0])


@selections
def test_an_element_above_all_others_is_what_the_fold_gives(kind):
    op = make(kind)
    values, sign = normal(9, 4).abs(), 1 if kind == "max" else -1
    values[5] += 10
    x = op.bijection.inverse(sign * values)
    assert tree_reduce(op, x, plan_tree([9])).equal(x[5:6])
    assert op(x, x[5].expand_as(x)).equal(x[5].expand_as(x))


def test_a_selected_element_has_its_whole_gradient_and_equal_ones_share_it():
    op = make("max")
    low, high = op.bijection.inverse(torch.tensor([[-1.0] * 4, [1.0] * 4]).double()).detach()
    for a, b, share in ((low, high, [0.0, 1.0]), (high, low, [1.0, 0.0]), (low, low, [0.5, 0.5])):
        a, b = a[None].clone().requires_grad_(), b[None].clone().requires_grad_()
        found = torch.autograd.grad(op(a, b).sum(), [a, b, *op.parameters()])
        assert [float(grad.mean()) for grad in found[:2]] == share
        assert all(grad.eq(0).all() for grad in found[2:])  # φ⁻¹ ∘ φ, whatever the weights


def test_autocast_leaves_the_laws_of_a_sum_to_single_precision():
    torch.manual_seed(0)
    op = Conjugated.sum(8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for law in (*LAWS, IDENTITY):
            law.assert_holds(op, *torch.randn(law.arity, 200, 8), rtol=1e-5)


def test_it_is_the_monoid_seen_through_the_bijection():
    a, b = normal(9, 4, seed=1), normal(9, 4, seed=2)
    op = make("sum")
    there, back = op.bijection, op.bijection.inverse
    torch.testing.assert_close(op(a, b), back(there(a) + there(b)))
    torch.testing.assert_close(op.identity, back(torch.zeros(4).double()))
    op = make("max")
    there, back = op.bijection, op.bijection.inverse
    torch.testing.assert_close(op(a, b), back(torch.maximum(there(a), there(b))))
    torch.testing.assert_close(op.identity, back(torch.full((4,), BOTTOM).double()))


def test_values_below_the_bottom_stay_as_they_are():
    op = Conjugated.max(4, bottom=-1.0).double()
    low, lower = op.bijection.inverse(torch.tensor([[[-5.0] * 4], [[-6.0] * 4]]).double())
    assert op(low, lower).equal(low)
    out = tree_reduce(op, torch.cat([low, lower]), plan_tree([2, 0]))
    assert out.equal(torch.stack([low[0], op.identity]))


def test_the_parameters_have_the_names_they_have_in_saved_runs():
    layers = [f"bijection.layers.{n}.{part}.{kind}" for n in (0, 1)
              for part in ("inner", "outer") for kind in ("weight", "bias")]  # fmt: skip
    for make_one in (Conjugated.sum, Conjugated.max):
        assert list(make_one(4, num_layers=2).state_dict()) == layers


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
    x = 30 * normal(TOTAL, 4)
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


@pytest.mark.parametrize("fold", [tree_fold, tree_reduce])
def test_each_row_goes_through_the_bijection_once_and_roots_alone_where_they_are_all(fold):
    calls = {"forward": 0, "inverse": 0}

    class Counting(CouplingFlow):
        def forward(self, x):
            calls["forward"] += x.shape[0]
            return super().forward(x)

        def inverse(self, y):
            calls["inverse"] += y.shape[0] if len(y) > 1 else 0  # not the identity
            return super().inverse(y)

    plan = plan_tree(RAGGED)
    x = normal(TOTAL, 4, dtype=torch.float32)
    fold(Conjugated(Sum(), Counting(4), 4), x, plan)
    num_decoded = plan.num_applications if fold is tree_fold else len(plan.root_nodes)
    assert calls == {"forward": TOTAL, "inverse": num_decoded}


@pytest.mark.parametrize("make", [Conjugated.sum, Conjugated.max])
def test_groups_alone_are_those_of_the_fold_with_its_nodes(make):
    op, found = make(4).double(), []
    for fold in (tree_reduce, lambda *given: tree_fold(*given).groups):
        x = normal(TOTAL, 4).requires_grad_()
        groups = fold(op, x, plan_tree(RAGGED))
        found.append([groups, *torch.autograd.grad(weighted(groups), [x, *op.parameters()])])
    torch.testing.assert_close(*found)


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
