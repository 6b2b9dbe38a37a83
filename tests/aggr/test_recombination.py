"""Recombined sets, and the law that is asked of them."""

import pytest
import torch
from aggr.cases import seeded
from trees import normal

import treefold
from treefold.aggr.recombination import consistency_loss, recombine
from treefold.aggr.sampling import Sampling
from treefold.aggr.tree_states import TreeStates
from treefold.algebra import Max
from treefold.fold import plan_tree, tree_fold
from treefold.operators import BinaryMLP


def tree_of(op, sizes):
    plan = plan_tree(torch.tensor(sizes, dtype=torch.int64), "balanced")
    rows = normal(sum(sizes), 3)
    return TreeStates.of(plan, rows[plan.leaves], tree_fold(op, rows, plan).nodes)


def test_sets_have_few_different_elements_and_many_of_each():
    leaves, sizes = recombine(1000, 500, seeded(1))
    assert (int(sizes.min()), int(sizes.max())) == (3, 32)
    assert int(leaves.min()) >= 0
    assert int(leaves.max()) < 1000
    different = [len(set(some.tolist())) for some in leaves.split(sizes.tolist())]
    assert (min(different), max(different)) == (1, 6)
    largest = [count for count, size in zip(different, sizes.tolist(), strict=True) if size > 24]
    assert sum(largest) / len(largest) == pytest.approx(4, abs=0.3)  # the mean of 2, 3, 4, 5, 6
    assert len(leaves.unique()) > 500  # all over the batch


def test_a_generator_decides_all():
    first, second, other = (recombine(50, 20, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.leaves, second.leaves)
    assert not torch.equal(first.sizes, other.sizes)


def test_an_exact_monoid_is_consistent():
    tree = tree_of(Max(), [5, 0, 9, 1])
    assert consistency_loss(Max(), tree, Sampling(), seeded(0)) == 0


def test_a_tree_without_leaves_has_no_loss():
    op = BinaryMLP(3).double()
    assert consistency_loss(op, tree_of(op, [0, 0]), Sampling(), seeded(0)) == 0
    assert consistency_loss(op, tree_of(op, []), Sampling(), seeded(0)) == 0


def test_the_mean_over_channels_is_their_sum_by_their_number():
    op = BinaryMLP(3).double()
    tree = tree_of(op, [5, 9, 1])
    by_sum, by_mean = (
        consistency_loss(op, tree, Sampling(None, how), seeded(0)) for how in ("sum", "mean")
    )
    assert by_sum > 0
    torch.testing.assert_close(by_sum, 3 * by_mean)


def test_it_is_the_distance_of_two_draws_for_an_operator_that_keeps_the_first():
    """With a b = a, a state is the first element met: the loss is the distance of two draws."""

    class First:
        identity = torch.zeros(3, dtype=torch.float64)

        def __call__(self, a, b):
            return a

    tree = tree_of(First(), [400, 400])
    losses = [float(consistency_loss(First(), tree, Sampling(), seeded(i))) for i in range(400)]
    rows = tree.leaves.gathered()
    # Two draws from the few elements of a set; they are the same one in about two of seven cases.
    apart = 2 * rows.var(0).sum().item()
    assert 0.5 * apart < sum(losses) / len(losses) < 0.85 * apart


def trained(weight):
    """The inconsistency of an operator that has learned maxima with this weight on the law."""
    torch.manual_seed(0)
    module = treefold.LCMAggregation(3, "binary-mlp", consistency=weight, generator=seeded(0))
    x, index = torch.randn(256, 3), torch.arange(256) // 4
    target = treefold.aggregator("max", 3)(x, index)
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    for _ in range(150):
        with treefold.record_penalties() as penalties:
            loss = (module(x, index) - target).square().mean()
        optimizer.zero_grad()
        (loss + penalties.total()).backward()
        optimizer.step()
    plan = plan_tree(torch.full((64,), 4))
    tree = TreeStates.of(plan, x[plan.leaves], tree_fold(module.operator, x, plan).nodes)
    with torch.no_grad():
        losses = [consistency_loss(module.operator, tree, Sampling(), seeded(i)) for i in range(20)]
    return float(sum(losses) / 20), float(loss.detach())


def test_training_with_it_makes_an_operator_consistent():
    (without, _), (consistent, error) = trained(0.0), trained(0.3)
    assert consistent < 0.3 * without
    assert error < 0.05  # and it has learned its task: the variance of maxima is 0.6
