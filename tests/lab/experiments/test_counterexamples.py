"""Counterexamples are trees that disagree, and never two that labels keep apart."""

import dataclasses

import pytest
import torch

from treefold.finite import check, close
from treefold.lab.experiments import counterexamples, find_experiment, run
from treefold.lab.experiments.counterexamples import NO_LABEL, Labels, find_disagreements
from treefold.lab.experiments.set_runner import SetRunner
from treefold.lab.runs import World


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(counterexamples, "TRIED", 1 << 11)
    monkeypatch.setattr(counterexamples, "MOST_CODES", 1 << 9)


@pytest.fixture
def runner():
    (experiment,) = find_experiment("finite-ideas/selection-taught", "smoke")
    return SetRunner(experiment, 0)


@pytest.fixture
def hard(runner):
    torch.manual_seed(0)
    network = runner.model()
    network.aggregator.operator.anneal(slope=20.0, hard=True)
    return network


def test_the_trees_that_are_found_disagree_and_may_agree_by_their_labels(hard, runner):
    op, data = hard.aggregator.operator, runner.train()
    found = find_disagreements(hard, op, data)
    hard.eval()
    table = op.code(hard.table())
    labels = Labels(op, table, data)
    s, v, w = found.codes, *table[found.values].unbind(1)
    first = op(op(s, v), w)
    other = torch.where(found.to_swap[:, None], op(op(s, w), v), op(s, op(v, w)))
    assert len(found) > 0
    assert bool((first != other).any(1).all())
    one, two = labels.of(first), labels.of(other)
    assert bool(((one == two) | (one < 0) | (two < 0)).all())


def test_labels_are_those_of_lists_and_others_have_none(hard, runner):
    op, data = hard.aggregator.operator, runner.train().take(torch.arange(1))
    hard.eval()
    table = op.code(hard.table())
    labels = Labels(op, table, data)
    state = table[data.values[0]]
    for value in data.values[1:]:
        state = op(state, table[value])
    assert labels.of(torch.stack([state, -state])).tolist() == [int(data.answers[0]), NO_LABEL]


def test_teaching_makes_the_trees_agree(hard, runner):
    op = hard.aggregator.operator
    found = find_disagreements(hard, op, runner.train())
    optimizer = torch.optim.Adam(hard.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = found.loss(op, hard.table(), 256)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_an_operator_whose_laws_hold_has_none(hard, runner):
    op = hard.aggregator.operator
    with torch.no_grad():
        for parameter in op.parameters():
            parameter.zero_()
        op.keep_and_new.bias.fill_(1.0)  # keep, of the selected; undecided, the larger of both
    hard.eval()
    assert check(close(op, op.code(hard.table()))).commutative_monoid
    found = find_disagreements(hard.train(), op, runner.train())
    assert (len(found), found.share, hard.training) == (0, 0.0, True)
    assert float(found.loss(op, hard.table(), 8).detach()) == 0


def test_a_recipe_asks_for_them_once_states_are_hard(runner, tmp_path):
    training = dataclasses.replace(runner.experiment.training, epochs=2, counterexamples=8)
    task = dataclasses.replace(runner.experiment.task, num_train=64)
    experiment = dataclasses.replace(runner.experiment, training=training, task=task)
    record = run(experiment, preset="smoke", seed=0, folder=tmp_path, world=World())
    assert record.recipe["training"]["counterexamples"] == 8
    assert record.status == "finished"
