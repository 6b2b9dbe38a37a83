"""Finite counters: every law holds, softly to rounding and of codes to the bit."""

import pytest
import torch
from torch.nn import functional as F

import treefold
from treefold import plan_tree, tree_reduce
from treefold.algebra import MONOID_LAWS, draw_for
from treefold.finite import check, close
from treefold.operators import FiniteCounters

KINDS = ((2, 1), (0, 3), (1, 1), (1, 2))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def states(op, n=50, seed=0):
    return op.code(torch.randn(n, op.channels, generator=generator(seed), dtype=torch.float64))


@pytest.mark.parametrize("kinds", [((2, 1),), ((0, 5),), KINDS])
@pytest.mark.parametrize("hard", [False, True])
def test_every_law_of_a_monoid_holds(kinds, hard):
    op = FiniteCounters(25, kinds).double()
    op.anneal(slope=2.0, hard=hard)
    samples = states(op)
    for law in MONOID_LAWS:
        drawn = draw_for(law, samples, None, 100, generator(1))
        law.assert_holds(op, *drawn, rtol=0.0, atol=0.0 if hard else 1e-14)


@pytest.mark.parametrize(
    ("kind", "counts"),
    [((2, 1), [1, 2, 2, 2, 2]), ((0, 3), [1, 2, 0, 1, 2]), ((1, 2), [1, 2, 1, 2, 1])],
)
def test_counting_to_five_goes_to_the_end_or_around(kind, counts):
    op = FiniteCounters(3, [kind])
    one = torch.tensor([[0.0, 1.0, 0.0]])
    state, seen = op.identity[None], []
    for _ in range(5):
        state = op(state, one)
        seen.append(int(state.argmax()))
        assert state.sort().values.tolist() == [[0.0, 0.0, 1.0]]
    assert seen == counts


def test_soft_counts_are_the_distribution_of_the_sum():
    op = FiniteCounters(3)
    p, q = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.2, 0.8, 0.0])
    expected = torch.tensor([0.1, 0.4 + 0.05, 0.25 * 1 + 0.25 * 0.8])
    torch.testing.assert_close(op(p[None], q[None])[0], expected)


def test_a_hard_code_is_the_largest_logit_of_each_counter_with_the_gradient_of_the_softmax():
    op = FiniteCounters(6, [(2, 1)]).train()  # values of two counters: 0, 0, 1, 1, 2, 2
    op.anneal(slope=1.5, hard=True)
    x = torch.tensor([[0.1, 3.0, 0.3, 2.0, 0.2, 1.0]], requires_grad=True)
    code = op.code(x)
    assert code.tolist() == [[0, 1, 1, 0, 0, 0]]
    weight = torch.arange(6.0)
    found = torch.autograd.grad((code * weight).sum(), x)[0]
    soft = (1.5 * x.view(1, 3, 2)).softmax(1).view(1, 6)
    torch.testing.assert_close(found, torch.autograd.grad((soft * weight).sum(), x)[0])


def test_codes_sharpen_as_the_slope_grows_and_noise_is_for_training_alone():
    op = FiniteCounters(9).eval()
    x = torch.randn(20, 9, generator=generator(3))
    peaks = []
    for slope in (1.0, 5.0, 200.0):
        op.anneal(slope, noise=0.5)
        peaks.append(float(op.code(x).view(20, 3, 3).amax(1).mean()))
        assert torch.equal(op.code(x), op.code(x))
    assert peaks[0] < peaks[1] < peaks[2]
    assert peaks[2] > 0.95
    assert not torch.equal(op.train().code(x), op.code(x))


def test_weights_need_not_sum_to_one_and_no_weight_counts_nothing():
    op = FiniteCounters(4)
    a = torch.tensor([[2.0, 1.0, 1.0, 7.0], [-1.0, -2.0, -3.0, 0.0]])
    e = op.identity.expand(2, -1)
    torch.testing.assert_close(op(a, e), torch.tensor([[0.5, 0.25, 0.25, 1.0], [1, 0, 0, 1]]))


def test_codes_close_to_a_monoid_of_every_kind_of_counter():
    op = FiniteCounters(13, KINDS).eval()
    op.anneal(hard=True)
    finite = close(op, 5 * torch.randn(3, 13, generator=generator(4)))
    assert check(finite).commutative_monoid
    assert set(finite.codes.flatten().tolist()) == {0.0, 1.0}


def test_folds_over_any_tree_agree_to_the_bit_once_hard():
    op = FiniteCounters(25, KINDS).eval()
    op.anneal(hard=True)
    rows, sizes = op.code(torch.randn(40, 25, generator=generator(5))), torch.tensor([30, 0, 1, 9])
    expected = tree_reduce(op, rows, plan_tree(sizes))
    for bracketing in ("carry", "random"):
        assert torch.equal(tree_reduce(op, rows, plan_tree(sizes, bracketing)), expected)
    assert torch.equal(expected[1], op.identity)


def test_a_checkpoint_remembers_how_far_annealing_was():
    op, other = FiniteCounters(6), FiniteCounters(6)
    op.anneal(7.0, 0.25, True)
    other.load_state_dict(op.state_dict())
    assert (other.slope, other.noise, other.hard) == (7.0, 0.25, True)
    other.reset_parameters()
    assert (other.slope, other.noise, other.hard) == (1.0, 0.0, False)


def test_the_aggregator_learns_what_rows_count():
    sets = treefold.aggregator("finite-counters", 5, kinds=[(0, 2)], state_channels=8)
    assert (sets.in_channels, sets.out_channels) == (5, 8)
    x = torch.randn(6, 5, generator=generator(6))
    out = sets(x, torch.tensor([0, 0, 0, 1, 1, 1]))
    odd = 1 - 2 * F.softmax(sets.project(x).view(6, 2, 4), 1)[:, 1]
    torch.testing.assert_close(1 - 2 * out[:, 4:], odd.view(2, 3, 4).prod(1))


@pytest.mark.parametrize("kinds", [[], [(-1, 2)], [(0, 0)]])
def test_counters_that_make_no_sense_are_refused(kinds):
    with pytest.raises(ValueError, match="expected"):
        FiniteCounters(6, kinds)
