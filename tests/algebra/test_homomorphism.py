import pytest
import torch
from algebra.monoid_cases import MULTIPLICATION, Operator

from treefold.algebra import (
    Homomorphism,
    KthMinimum,
    Max,
    Mean,
    Min,
    Multisets,
    Sum,
    SumModulo,
    TopK,
    check_imitates,
)

POSITIVE = torch.linspace(0.5, 2, 12, dtype=torch.float64).unsqueeze(-1)
REALS = torch.linspace(-3, 3, 13, dtype=torch.float64).unsqueeze(-1)


def same(x):
    return x


def flags(imitation):
    return (
        imitation.aggregates_agree,
        imitation.is_left_inverse,
        imitation.preserves_identity,
        imitation.preserves_operation,
    )


def check(target, fixed, g, h, samples, **options):
    imitation = check_imitates(
        target, fixed, g, h, samples, generator=torch.Generator().manual_seed(0), **options
    )
    # The proposition itself: two computations that share nothing come to the same answer.
    assert imitation.aggregates_agree == imitation.is_homomorphism == imitation.holds
    return imitation


@pytest.mark.parametrize(
    ("target", "fixed", "g", "h", "samples"),
    [
        (MULTIPLICATION, Sum(), torch.log, torch.exp, POSITIVE),
        (Sum(), MULTIPLICATION, torch.exp, torch.log, REALS),
        (Min(), Max(), torch.neg, torch.neg, REALS),
        (SumModulo(5), Sum(), same, lambda x: x % 5, torch.arange(5)),
        (Max(), TopK(2), TopK(2).encode, lambda state: state[..., 0], REALS),
        (KthMinimum(2), TopK(2), torch.neg, torch.neg, KthMinimum(2).encode(REALS)),
        (Mean(), Mean(), same, same, Mean().encode(REALS)),
    ],
    ids=["exp-log", "log-exp", "negation", "remainder", "first", "sorted", "itself"],
)
def test_a_left_inverse_homomorphism_imitates(target, fixed, g, h, samples):
    assert flags(check(target, fixed, g, h, samples)) == (True, True, True, True)


def test_without_a_left_inverse_singletons_come_out_wrong():
    imitation = check(Sum(), Sum(), same, lambda x: 2 * x, REALS)
    assert flags(imitation) == (False, False, True, True)
    assert imitation.left_inverse.absolute == pytest.approx(3.0)
    assert imitation.left_inverse.relative == pytest.approx(0.5)


def test_without_the_identity_only_the_empty_set_comes_out_wrong():
    # Max over everything imitates max over the nonnegative, except that its empty maximum is -inf.
    imitation = check(Max(bottom=0.0), Max(), same, same, POSITIVE)
    assert flags(imitation) == (False, True, False, True)
    assert imitation.identity.absolute == torch.inf
    repaired = check(Max(bottom=0.0), Max(), same, lambda x: x.clamp(min=0), POSITIVE)
    assert repaired.holds


def test_without_the_operation_larger_sets_come_out_wrong():
    imitation = check(Max(bottom=0.0), Sum(), same, same, POSITIVE)
    assert flags(imitation) == (False, True, True, False)


def test_the_operation_is_tested_on_sets_twice_as_large():
    # Sum imitates max on sets of one element at most; a pair of them gives it away.
    imitation = check_imitates(Max(bottom=0.0), Sum(), same, same, POSITIVE, max_size=1)
    assert flags(imitation) == (True, True, True, False)
    assert not imitation.holds


def test_the_two_elements_of_a_pair_are_drawn_apart():
    # Both operations leave x with x alone, so only different elements tell them apart.
    def flip_empty(x):
        return x.masked_fill(x == -torch.inf, torch.inf)

    assert flags(check(Min(), Max(), same, flip_empty, REALS)) == (False, True, True, False)


def test_not_a_number_never_holds():
    imitation = check(Sum(), Sum(), same, lambda x: x * torch.nan, REALS)
    assert flags(imitation) == (False, False, False, False)


def test_the_tolerances_decide_what_is_close():
    def shrink(x):
        return 0.999 * x

    assert not check(Sum(), Sum(), same, shrink, REALS).is_left_inverse
    assert check(Sum(), Sum(), same, shrink, REALS, rtol=2e-3).holds
    assert check(Sum(), Sum(), same, shrink, REALS, atol=0.1).holds


def test_the_submonoid_is_tested_beyond_the_images_of_samples():
    # h agrees with addition on single samples 0 and 1 and on their pairwise sums, not further out.
    samples = torch.tensor([[0.0], [1.0]])
    imitation = check(Sum(), Sum(), same, lambda x: x.clamp(max=2), samples)
    assert flags(imitation) == (False, True, True, False)


def test_a_homomorphism_aggregates_through_the_fixed_monoid():
    multisets = Multisets(tuple(torch.tensor([[2.0, 2.0], [3.0, 3.0]])), torch.tensor([0, 2]))
    product = Homomorphism(torch.log, torch.exp).aggregate(Sum(), multisets)
    torch.testing.assert_close(product, torch.tensor([1.0, 6.0]))


def test_an_imitation_prints_each_condition_and_its_worst_violation():
    lines = str(check(Sum(), Sum(), same, lambda x: 2 * x, REALS)).splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["condition", "holds", "absolute", "relative"]
    assert lines[1].startswith("aggregates agree")
    assert lines[2].split()[-3:] == ["no", "3.00e+00", "5.00e-01"]
    assert lines[3].split()[-3:] == ["yes", "0.00e+00", "0.00e+00"]
    assert len({len(line) for line in lines}) == 1


def test_a_wrong_identity_of_the_fixed_monoid_shows_in_the_empty_set_alone():
    skewed = Operator(torch.add, torch.tensor(1.0))
    assert flags(check(Sum(), skewed, same, same, REALS)) == (False, True, False, True)
