"""Counters that answer questions: learned from labelled sets, chosen, read, and proved."""

import pytest
import torch

from treefold.fold import Groups, plan_tree, tree_reduce
from treefold.lab.experiments import certify_network, find_experiment, load_model, run
from treefold.lab.networks import CountingNetwork, asked
from treefold.lab.runs import World
from treefold.lab.tasks import SET_TASKS

SECOND = SET_TASKS["second-minimum"](bits=2, num_train=512)


def settled(kinds=((2, 1),), wrong=()):
    """A network that counts integers up to t for the threshold t, in the first kind of counter."""
    torch.manual_seed(0)
    network = CountingNetwork(2, 2, kinds)
    with torch.no_grad():
        for value, logits in enumerate(network.operator.split(network.logits)[0]):
            for t in range(3):
                counts = (torch.arange(4) <= t).float()
                logits[:, 2 + t] = 9 * (counts if value == 1 else 1 - counts if value == 0 else 0)
        for place, change in wrong:
            network.operator.split(network.logits)[0][1][place] = change
    return network


def test_questions_are_digits_and_thresholds():
    found = asked(torch.tensor([0, 2, 3]), 2).int().tolist()
    assert found == [[0, 0, 0, 0, 0], [0, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert asked(torch.tensor([0, 1]), 1).int().tolist() == [[0], [1]]


def test_the_counters_that_answer_are_used_and_read():
    network = settled()
    network.operator.anneal(hard=True)
    network.settle(SECOND.train(0))
    assert set(range(2, 5)) <= set(network.operator.used.nonzero().flatten().tolist())
    data = SECOND.evaluation(40, 0)
    logits = network.eval()(data.values, data.groups)
    assert torch.equal(((logits > 0).long() * torch.tensor([1, 2])).sum(1), data.answers)
    proof = certify_network(network, SECOND).certificate
    assert (proof.holds, proof.wrong, proof.classes) == (True, 0, 10)
    assert proof.margin > 0


def test_a_wrong_count_is_found_and_shown_as_a_tree():
    network = settled()
    network.operator.anneal(hard=True)
    network.settle(SECOND.train(0))
    with torch.no_grad():  # the integer 3 counts as one of those up to 2
        network.operator.split(network.logits)[0][1][3, 4] = 99
    proof = certify_network(network, SECOND).certificate
    assert not proof.holds
    assert any("3" in example and "⊕" in example for example in proof.counterexamples)


def test_soft_states_have_no_certificate():
    with pytest.raises(ValueError, match="still soft"):
        certify_network(settled(), SECOND)


def test_once_hard_the_table_is_settled():
    network = settled().train()
    network.operator.anneal(hard=True)
    data = SECOND.train(0).take(torch.arange(8))
    network(data.values, data.groups).sum().backward()
    assert float(network.logits.grad.abs().max()) == 0
    assert float(network.decoder.weight.grad.abs().max()) > 0


def test_answers_of_many_bits_are_refused():
    with pytest.raises(ValueError, match="10 or fewer"):
        CountingNetwork(2, 11, [(2, 1)])


@pytest.mark.parametrize("name", ["finite/parity", "finite/second-minimum"])
def test_an_ordinary_run_ends_in_a_proof(name, tmp_path):
    (experiment,) = find_experiment(name, "smoke")
    record = run(experiment, preset="smoke", seed=0, folder=tmp_path, world=World())
    assert record.metrics["accuracy@200"] == 1
    model = load_model(tmp_path)
    assert model.operator.hard
    proof = certify_network(model, experiment.task).certificate
    assert proof.holds
    groups = Groups.from_sizes([3, 1, 5])
    rows = model.operator.code(model.table())[torch.randint(0, 4, (9,))]
    for bracketing in ("balanced", "random"):
        folded = tree_reduce(model.operator, rows, plan_tree(groups.sizes, bracketing))
        assert set(folded.flatten().tolist()) <= {0.0, 1.0}
