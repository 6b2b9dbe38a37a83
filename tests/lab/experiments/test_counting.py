"""Counters are learned from labelled sets until every tree is proved right."""

import dataclasses

import pytest
import torch

from treefold.fold import plan_tree, tree_reduce
from treefold.lab.experiments.certifying import certify_counting
from treefold.lab.experiments.counting import Counting, CountingNetwork, fold_counts, learn_counters
from treefold.lab.tasks import SET_TASKS
from treefold.operators import FiniteCounters

SMALL = Counting(
    kinds=((0, 2),),
    num_each=4,
    width=16,
    soft_epochs=3,
    settling_epochs=2,
    batch_size=64,
    learning_rate=1e-2,
    decoder_steps=200,
)
PARITY = SET_TASKS["parity"](bits=2, num_train=2048)


@pytest.mark.parametrize("kinds", [((1, 1),), ((2, 1), (3, 1)), ((0, 2), (0, 5)), ((2, 1), (0, 3))])
def test_folding_counts_is_folding_over_a_tree(kinds):
    generator = torch.Generator().manual_seed(0)
    op = FiniteCounters(23, kinds).double()
    table = op.code(torch.randn(6, 23, generator=generator, dtype=torch.float64))
    sizes = torch.tensor([1, 7, 2, 12, 3])
    values = torch.randint(0, 6, (int(sizes.sum()),), generator=generator)
    counts = torch.stack([row.bincount(minlength=6) for row in values.split(sizes.tolist())])
    by_tree = tree_reduce(op, table[values], plan_tree(sizes))
    torch.testing.assert_close(fold_counts(op, table, counts.double()), by_tree)


def test_other_counters_are_refused_there():
    op = FiniteCounters(6, [(1, 2)])
    with pytest.raises(ValueError, match="use two kinds"):
        fold_counts(op, op.identity[None], torch.ones(1, 1))


def test_parity_is_learned_and_proved_over_every_tree():
    learned = list(learn_counters(PARITY, 0, SMALL))[-1]
    settled = [report.settled for report in learned.reports]
    assert settled == sorted(settled)
    assert (learned.reports[-1].wrong, settled[-1]) == (0, 1.0)
    proved = certify_counting(learned.network, PARITY, seed=0)
    assert proved.certificate.holds
    assert proved.certificate.classes == 2
    assert proved.certificate.margin > 0
    data = PARITY.evaluation(1000, 0)
    logits = learned.network(data.values, data.groups)
    assert torch.equal((logits > 0).long().squeeze(1), data.answers)


def test_a_network_that_was_stopped_early_gets_counterexamples_or_a_refusal():
    network = next(learn_counters(PARITY, 0, SMALL)).network
    with pytest.raises(ValueError, match="still learned"):
        certify_counting(network, PARITY)
    network.settle(1.0)
    network.settled[1] = 0  # a value that no counter counts
    found = certify_counting(network, PARITY).certificate
    assert not found.holds
    assert found.counterexamples


def test_the_surest_entries_are_settled_first_and_stay():
    torch.manual_seed(0)
    network = CountingNetwork(3, 1, dataclasses.replace(SMALL, sure=2.0))
    assert network.settle(0.25) == 0.25
    first = network.settled.clone()
    peaks = (
        torch.stack(network.operator.split(network.encoder(network.digits))[0]).softmax(0).amax(0)
    )
    assert peaks[first >= 0].min() >= peaks[first < 0].max()
    assert network.settle(1.0) == 1.0
    assert torch.equal(network.settled[first >= 0], first[first >= 0])
