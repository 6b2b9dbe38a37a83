"""Finite selection: soft like gated selection, hard a merge of codes in whole numbers."""

import copy

import pytest
import torch

import treefold
from treefold import plan_tree, tree_reduce
from treefold.operators import FiniteSelection


def hard_operator(channels=6, hidden_channels=10, seed=0, dtype=torch.float32):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        op = FiniteSelection(channels, hidden_channels)
        torch.nn.init.normal_(op.own)
    op.anneal(slope=20.0, hard=True)
    return op.to(dtype).eval()


def all_codes(channels=6):
    bits = torch.arange(2**channels)[:, None] >> torch.arange(channels) & 1
    return 2.0 * bits - 1


def every_pair(channels=6):
    codes = all_codes(channels)
    return codes.repeat_interleave(len(codes), 0), codes.repeat(len(codes), 1)


def test_a_hard_operator_makes_codes_of_codes():
    a, b = every_pair()
    made = hard_operator()(a, b)
    assert torch.equal(made.abs(), torch.ones_like(made))
    assert len(made.unique(dim=0)) > 1


@pytest.mark.parametrize("training", [False, True])
def test_exchanging_the_arguments_changes_nothing_for_any_two_codes(training):
    a, b = every_pair()
    op = hard_operator().train(training)
    assert torch.equal(op(a, b), op(b, a))


def test_an_undecided_gate_takes_the_larger_of_both_in_either_order():
    op = hard_operator()
    with torch.no_grad():
        for parameter in op.parameters():
            parameter.zero_()
    a, b = every_pair()
    assert torch.equal(op(a, b), torch.maximum(a, b))
    assert torch.equal(op(b, a), torch.maximum(a, b))


@pytest.mark.parametrize("hard", [False, True])
def test_whatever_meets_the_identity_stays_as_it_is(hard):
    op, codes = hard_operator(), all_codes()
    op.anneal(hard=hard)
    nothing = op.identity.expand_as(codes)
    assert torch.equal(op(codes, nothing), codes)
    assert torch.equal(op(nothing, codes), codes)
    assert torch.equal(op(nothing, nothing), nothing)
    assert torch.equal(op.code(nothing), nothing)


def test_sums_of_whole_numbers_are_exact_in_any_order_of_channels_and_any_batch():
    """The same merge with hidden channels permuted, one row at a time: other sums, equal codes."""
    op, twin = hard_operator(64, 128), hard_operator(64, 128)
    order = torch.randperm(128, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for layer in (twin.select, twin.keep_and_new):
            layer.weight.copy_(layer.weight[:, order])
        both = torch.cat([order, 128 + order])
        twin.hidden.weight.copy_(twin.hidden.weight[both])
        twin.hidden.bias.copy_(twin.hidden.bias[both])
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, 300, 64, generator=generator).sign()
    expected = op(a, b)
    assert torch.equal(twin(a, b), expected)
    alone = [op(x[None], y[None]) for x, y in zip(a, b, strict=True)]
    assert torch.equal(torch.cat(alone), expected)


@torch.no_grad()
@pytest.mark.parametrize("channels", [6, 256, 1024])
def test_every_sum_stays_below_two_to_the_53_where_weights_are_as_large_as_can_be(channels):
    op = hard_operator(channels, channels)
    for parameter in op.parameters():
        parameter.fill_(1e9)
    # A hidden number sums the weights of a row twice, once per argument, and both biases.
    hidden = 2 * op._whole(op.hidden.weight).sum(1).max() + 2 * op._whole(op.hidden.bias).max()
    # The second layer gets the sum of two hidden rows, the bias, and a channel's own terms.
    one = 2.0**op.fraction_bits
    own = 4 * one * op._whole(op.own).max() + one * op._whole(op.keep_and_new.bias).max()
    assert 2 * hidden * op._whole(op.keep_and_new.weight).sum(1).max() + own < 2**53
    plus = torch.ones(1, channels)
    assert torch.equal(op(plus, -plus), op(-plus, plus))


def test_the_type_of_parameters_does_not_matter_where_it_holds_them():
    a, b = every_pair()
    op = hard_operator().bfloat16()
    made = op(a.bfloat16(), b.bfloat16())
    assert torch.equal(made.double(), copy.deepcopy(op).double()(a.double(), b.double()))


def test_training_on_hard_codes_sees_what_evaluation_does():
    op = hard_operator(dtype=torch.float64)
    a, b = (x.double() for x in every_pair())
    assert torch.equal(op.train()(a, b), op.eval()(a, b))


def test_straight_through_gradients_reach_every_parameter_and_both_arguments():
    op = hard_operator().train()
    op.anneal(slope=1.0, hard=True)
    a, b = (x[:500].clone().requires_grad_() for x in every_pair())
    op(a, b).sum().backward()
    for tensor in (a, b, *op.parameters()):
        assert tensor.grad.isfinite().all()
        assert tensor.grad.abs().sum() > 0


def test_states_approach_codes_as_the_slope_grows():
    op = hard_operator(16, 16)
    generator = torch.Generator().manual_seed(2)
    a, b = torch.randn(2, 200, 16, generator=generator)
    distances = []
    for slope in (1.0, 5.0, 50.0):
        op.anneal(slope)
        distances.append(float((op(a, b).abs() - 1).abs().mean().detach()))
    assert distances[0] > 2 * distances[1] > 4 * distances[2]


def test_noise_is_added_in_training_only():
    op = FiniteSelection(4)
    a, b = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(3))
    still = op.eval()(a, b)
    op.anneal(slope=2.0, noise=0.5)
    assert not torch.equal(op.train()(a, b), op.train()(a, b))
    assert torch.equal(op.eval()(a, b), op.eval()(a, b))
    op.anneal()
    assert torch.equal(op.train()(a, b), still)


def test_a_checkpoint_remembers_how_far_annealing_was():
    op, other = hard_operator(), FiniteSelection(6, 10)
    other.load_state_dict(op.state_dict())
    assert (other.slope, other.noise, other.hard) == (20.0, 0.0, True)
    a, b = every_pair()
    assert torch.equal(other.eval()(a, b), op(a, b))
    other.reset_parameters()
    assert (other.slope, other.noise, other.hard) == (1.0, 0.0, False)


@pytest.mark.parametrize("wrong", [{"slope": 0.5}, {"slope": float("inf")}, {"noise": -1.0}])
def test_annealing_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="slope is"):
        FiniteSelection(4).anneal(**wrong)


def test_widths_whose_sums_would_not_be_exact_are_refused():
    with pytest.raises(ValueError, match="fewer channels"):
        FiniteSelection(1 << 16)


def test_an_aggregator_of_a_hard_operator_gives_codes_even_of_single_rows():
    aggregator = treefold.aggregator("finite-selection", 6).eval()
    aggregator.operator.anneal(hard=True)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(4))
    out = aggregator(x, torch.tensor([0, 0, 0, 2, 2]), dim_size=4)
    assert torch.equal(out[[0, 2]].abs(), torch.ones(2, 6))
    assert torch.equal(out[[1, 3]], torch.zeros(2, 6))
    assert torch.equal(aggregator(x, torch.arange(5)), aggregator.operator.code(x))


def test_hard_folds_equal_merges_by_hand():
    op, codes = hard_operator(), all_codes()[[3, 9, 27, 50]]
    folded = tree_reduce(op, codes, plan_tree(torch.tensor([4, 0])))
    by_hand = op(op(codes[:1], codes[1:2]), op(codes[2:3], codes[3:]))
    assert torch.equal(folded[0], by_hand[0])
    assert torch.equal(folded[1], op.identity)
