"""The paper's set network, and the oracle in its place."""

import pytest
import torch

import treefold
from treefold.fold import Groups
from treefold.lab.experiments.set_runner import score
from treefold.lab.networks import OracleNetwork, SetNetwork
from treefold.lab.tasks import SET_TASKS, from_bits


def make(name="binary-gru", channels=8):
    torch.manual_seed(0)
    return SetNetwork(8, 8, channels, treefold.aggregator(name, channels)).double().eval()


def test_an_integer_is_embedded_as_the_sum_of_its_bits_through_the_encoder():
    network = make()
    zeros, ones = network.embedding
    bits = [1, 0, 1, 0, 0, 0, 0, 0]  # 5, the lowest first
    total = sum(ones[place] if bit else zeros[place] for place, bit in enumerate(bits))
    torch.testing.assert_close(network.table()[5], network.encoder(total))


def test_logits_are_the_decoded_fold_of_embeddings():
    network = make()
    values, groups = torch.tensor([5, 200, 5, 7]), Groups.from_sizes([1, 3])
    rows = network.table()[values]
    states = network.aggregator(rows, torch.tensor([0, 1, 1, 1]))
    torch.testing.assert_close(network(values, groups), network.decoder(states))


@pytest.mark.parametrize("name", treefold.AGGREGATORS)
def test_every_aggregator_fits_and_every_parameter_learns(name):
    network = make(name).train()
    with treefold.record_penalties() as penalties:
        logits = network(torch.tensor([5, 200, 5, 7, 9]), Groups.from_sizes([2, 3]))
    (logits.square().sum() + penalties.total()).backward()
    assert logits.shape == (2, 8)
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_the_network_of_the_paper_has_the_size_of_the_paper():
    network = SetNetwork(8, 8, 128, treefold.aggregator("binary-gru", 128))
    embedding, linear = 2 * 8 * 128, 128 * 128 + 128
    cell, identity = 6 * 128 * 128 + 6 * 128, 128
    decoder = linear + 128 * 8 + 8
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == embedding + linear + cell + identity + decoder


@pytest.mark.parametrize("name", SET_TASKS)
def test_the_oracle_is_always_right(name):
    task = SET_TASKS[name](num_evaluation=50)
    oracle = OracleNetwork(task)
    for size in (1, 2, 17, 200):
        assert score(oracle, task.evaluation(size, seed=1), 1000)[1] == 1.0


def test_the_score_counts_sets_not_batches():
    task = SET_TASKS["second-minimum"](num_evaluation=101)
    data = task.evaluation(3, seed=0)
    network = make()
    logits = network(data.values, data.groups)
    expected = float((from_bits(logits > 0) == data.answers).double().mean())
    for elements in (7, 50, 10_000):
        assert score(network, data, elements)[1] == pytest.approx(expected)
