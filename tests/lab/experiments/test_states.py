"""A trained operator's states are counted, their laws decided, and the needed ones told apart."""

import torch

from treefold import aggregator
from treefold.fold import Groups
from treefold.lab.experiments import find_experiment, run, states, states_of_layer
from treefold.lab.experiments.task_runner import Folded
from treefold.lab.runs import World


def layer(seed=0, channels=5):
    torch.manual_seed(seed)
    made = aggregator("finite-selection", channels)
    rows = torch.randn(30, channels)
    return made, Folded(made, rows, Groups.from_sizes([10, 20]))


def test_a_record_says_how_many_states_were_learned_and_that_they_are_a_monoid(tmp_path):
    (experiment,) = find_experiment("finite/parity", "smoke")
    record = run(experiment, preset="smoke", seed=0, folder=tmp_path, world=World())
    found = {name: record.metrics[name] for name in ("finite_states", "smallest_quotient")}
    assert found == {"finite_states": 2, "smallest_quotient": 2}
    assert record.metrics["commutative_monoid"] is True


def test_an_untrained_layer_is_no_monoid_and_says_by_which_trees():
    made, folded = layer()
    made.operator.anneal(hard=True)
    found = states_of_layer(folded)
    distinct = torch.where(folded.rows >= 0, 1, -1).unique(dim=0)
    assert found.elements == len(distinct)
    assert len(distinct) <= found.reached <= 32
    assert not found.laws.commutative_monoid
    assert "no commutative monoid" in str(found)
    assert found.metrics() == {
        "finite_states": found.reached,
        "commutative_monoid": False,
        "smallest_quotient": None,
    }


def test_too_many_states_are_an_answer(monkeypatch):
    monkeypatch.setattr(states, "LIMIT", 8)
    made, folded = layer()
    made.operator.anneal(hard=True)
    found = states_of_layer(folded)
    assert "limit reached, more than 8 states" in str(found)
    assert found.metrics() == {"finite_states": None}


def test_soft_states_and_other_operators_are_not_counted():
    _, folded = layer()
    assert states_of_layer(folded) is None
    assert states_of_layer(folded._replace(aggregator=aggregator("sum", 5))) is None
