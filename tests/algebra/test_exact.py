import math

import pytest
import torch
from algebra.monoid_cases import CASES, NONNEGATIVE, REALS, fold, multisets, stacks
from hypothesis import given, settings
from hypothesis import strategies as st

import treefold.algebra
from treefold.algebra import (
    MONOID_LAWS,
    LogSumExp,
    Max,
    Mean,
    Min,
    Monoid,
    Sum,
    identity_like,
    tensors_of,
)

REAL_LISTS = st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=10)


@pytest.mark.parametrize("law", MONOID_LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_exact_monoid_obeys_every_law(case, law):
    @settings(max_examples=10, deadline=None, derandomize=True)
    @given(multisets(case, law.arity))
    def holds(samples):
        law.assert_holds(case.monoid, *stacks(case, samples))

    holds()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("law", MONOID_LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("case", [c for c in CASES if c.values in (REALS, NONNEGATIVE)], ids=str)
def test_exact_monoids_obey_every_law_for_numbers_of_any_size(case, law, scale):
    rows = scale * torch.randn(law.arity, 3, 50, 2, generator=torch.Generator().manual_seed(0))
    values = (rows.abs() if case.values is NONNEGATIVE else rows).to(case.dtype)
    law.assert_holds(case.monoid, *(case.monoid.encode(one[0]) for one in values))
    law.assert_holds(case.monoid, *(fold(case.monoid, one.unsqueeze(1)) for one in values))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_exact_monoid_is_a_monoid_that_its_repr_rebuilds(case):
    assert isinstance(case.monoid, Monoid)
    rebuilt = eval(repr(case.monoid), {**vars(treefold.algebra), "inf": math.inf})
    assert rebuilt == case.monoid
    assert hash(rebuilt) == hash(case.monoid)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_folding_keeps_shapes_and_types_of_the_encoded_values(case):
    x = torch.ones(4, 2, 3).to(case.dtype)
    encoded = case.monoid.encode(x)
    combined = case.monoid(encoded, encoded)
    nothing = identity_like(case.monoid, encoded)
    for before, after, none in zip(*map(tensors_of, (encoded, combined, nothing)), strict=True):
        assert before.shape[:3] == (4, 2, 3)
        assert before.shape == after.shape == none.shape
        assert before.dtype == after.dtype == none.dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("monoid", [Sum(), Max(), Min(), LogSumExp(), Mean()], ids=repr)
def test_floating_types_are_kept_by_encoding_and_combining(monoid, dtype):
    encoded = monoid.encode(torch.ones(3, dtype=dtype))
    combined = monoid(encoded, identity_like(monoid, encoded))
    assert {tensor.dtype for tensor in tensors_of(combined)} == {dtype}


@settings(deadline=None)
@given(REAL_LISTS)
def test_folds_are_what_python_and_torch_say(values):
    x = torch.tensor(values, dtype=torch.float64)
    expected = {
        Sum(): math.fsum(values),
        Max(): max(values),
        Min(): min(values),
        LogSumExp(): torch.logsumexp(x, 0).item(),
    }
    for monoid, answer in expected.items():
        assert monoid.decode(fold(monoid, x)).item() == pytest.approx(answer, rel=1e-9, abs=1e-9)


def test_booleans_are_summed_as_integers():
    assert fold(Sum(), torch.tensor([True, True, False])).tolist() == [2]


def test_the_true_identities_are_infinite_and_the_extremes_for_integers():
    for dtype in (torch.uint8, torch.int32, torch.int64):
        like = torch.zeros(2, dtype=dtype)
        assert identity_like(Max(), like).tolist() == [torch.iinfo(dtype).min] * 2
        assert identity_like(Min(), like).tolist() == [torch.iinfo(dtype).max] * 2
    assert identity_like(Max(), torch.zeros(1)).item() == -math.inf
    assert identity_like(Min(), torch.zeros(1)).item() == math.inf


def test_a_bottom_or_top_is_exact_in_double_precision():
    like = torch.zeros(1, dtype=torch.float64)
    assert identity_like(Max(bottom=0.1), like).item() == 0.1
    assert identity_like(Min(top=0.1), like).item() == 0.1


def test_max_from_zero_is_the_papers_monoid_on_nonnegative_numbers_only():
    identity_law = MONOID_LAWS[0]
    identity_law.assert_holds(Max(bottom=0.0), torch.tensor([0.0, 3.0]))
    with pytest.raises(AssertionError, match="sample 1"):
        identity_law.assert_holds(Max(bottom=0.0), torch.tensor([0.0, -3.0]))


@pytest.mark.parametrize(
    ("a", "b", "value", "gradient"),
    [
        (-math.inf, -math.inf, -math.inf, (0.5, 0.5)),
        (-math.inf, 2.0, 2.0, (0.0, 1.0)),
        (2.0, -math.inf, 2.0, (1.0, 0.0)),
        (math.inf, math.inf, math.inf, (0.5, 0.5)),
        (math.inf, 2.0, math.inf, (1.0, 0.0)),
        (1.0, 1.0, 1.0 + math.log(2), (0.5, 0.5)),
    ],
)
def test_log_sum_exp_has_softmax_gradients_also_at_infinity(a, b, value, gradient):
    a, b = torch.tensor([a], requires_grad=True), torch.tensor([b], requires_grad=True)
    out = LogSumExp()(a, b)
    out.sum().backward()
    assert out.item() == pytest.approx(value)
    assert (a.grad.item(), b.grad.item()) == pytest.approx(gradient)


def test_log_sum_exp_has_the_right_gradients_elsewhere():
    a, b = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(LogSumExp(), (a.requires_grad_(), b.requires_grad_()))
