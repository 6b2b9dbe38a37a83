"""Training shuffles each set, from a generator that can be given; evaluation leaves it."""

import pytest
import torch
from aggr.cases import (
    CHANNELS,
    NUM_GROUPS,
    UNSORTED,
    Skewed,
    X,
    seeded,
)

from treefold import (
    LCMAggregation,
)
from treefold.algebra import Sum


class First:
    """a ⊕ b = a: the answer is the group's first row, so shuffling is seen."""

    identity = torch.full((), -1.0)

    def __call__(self, a, b):
        return a


def numbered(n):
    return torch.arange(float(n)).view(n, 1)


def test_training_shuffles_each_group_and_nothing_else():
    module, x = LCMAggregation(1, First(), generator=seeded()), numbered(len(UNSORTED))
    firsts = torch.stack([module(x, UNSORTED).squeeze(1) for _ in range(100)])
    for group, seen in enumerate(firsts.t()):
        members = x[group == UNSORTED].squeeze(1).tolist() or [-1.0]
        assert set(seen.tolist()) == set(members)


def test_shuffling_keeps_the_multiset():
    module, x = LCMAggregation(1, Sum(), generator=seeded()), numbered(len(UNSORTED))
    expected = torch.zeros(NUM_GROUPS, 1).index_add(0, UNSORTED, x)
    for _ in range(20):
        assert torch.equal(module(x, UNSORTED), expected)


def test_every_order_of_a_group_is_as_likely():
    class Spelling:
        identity = torch.zeros(())

        def __call__(self, a, b):  # 1, 2 -> 12, for numbers of one digit on the right
            return 10 * a + b

    module = LCMAggregation(1, Spelling(), bracketing="carry", generator=seeded())
    x, index = torch.tensor([1.0, 2.0, 3.0]).repeat(1200).view(-1, 1), torch.arange(3600) // 3
    orders, counts = module(x, index).unique(return_counts=True)
    assert orders.tolist() == [123, 132, 213, 231, 312, 321]
    assert ((counts - 200).abs() < 4 * (1200 * 5 / 36) ** 0.5).all()


@pytest.mark.parametrize(("training", "shuffle"), [(False, True), (True, False), (False, False)])
def test_there_is_no_shuffling_in_evaluation_or_where_it_is_off(training, shuffle):
    module = LCMAggregation(1, First(), shuffle=shuffle).train(training)
    x = numbered(len(UNSORTED))
    for _ in range(5):
        assert module(x, UNSORTED).squeeze(1).tolist() == [1, -1, 5, 0, -1, 8, 2]


@pytest.mark.parametrize("bracketing", ["balanced", "random"])
def test_a_generator_reproduces_training_and_leaves_torchs_own_alone(bracketing):
    before = torch.random.get_rng_state()
    outs = []
    for seed in (3, 3, 4):
        module = LCMAggregation(CHANNELS, Skewed().double(), bracketing=bracketing)
        module.load_state_dict(outs[0][0] if outs else module.state_dict())
        module.generator = seeded(seed)
        torch.random.set_rng_state(before)
        outs.append((module.state_dict(), module(X, UNSORTED)))
        assert torch.equal(torch.random.get_rng_state(), before)
    (_, first), (_, same), (_, other) = outs
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_a_generator_moves_on_from_call_to_call():
    module = LCMAggregation(CHANNELS, Skewed().double(), generator=seeded())
    assert not torch.equal(module(X, UNSORTED), module(X, UNSORTED))
