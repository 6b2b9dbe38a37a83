"""A run that is restored is as if it had never stopped, to the bit."""

import math

import pytest
import torch
from lab.runs.small_training import CASES, NUM_STEPS, Run, same, states

from treefold.checkpoints import CheckpointStore
from treefold.lab.runs.state import capture, restore


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stop", [0, 7])
def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(case, stop, tmp_path):
    whole = Run(0, *CASES[case]).train(NUM_STEPS)
    expected = states(whole)

    store = CheckpointStore(tmp_path)
    store.save(capture(**Run(0, *CASES[case]).train(stop).parts))
    resumed = Run(1, *CASES[case])
    restore(store.load(), **resumed.parts)
    resumed.train(NUM_STEPS - stop)

    found = states(resumed)
    assert len(whole.progress["losses"]) == NUM_STEPS
    assert all(map(math.isfinite, whole.progress["losses"]))
    assert [name for name in expected if not same(found[name], expected[name])] == []


@pytest.mark.parametrize("left_out", ["model", "optimizer", "scheduler"])
def test_every_part_matters(left_out):
    """The comparison above would notice any of them missing."""
    case = CASES["adam-onecycle"]
    whole = Run(0, *case).train(NUM_STEPS)
    saved = capture(**Run(0, *case).train(7).parts)
    resumed = Run(1, *case)
    parts = {name: part for name, part in resumed.parts.items() if name != left_out}
    restore(saved, **parts)
    resumed.progress = {name: [*values] for name, values in saved.state["progress"].items()}
    resumed.train(NUM_STEPS - 7)
    assert resumed.progress != whole.progress


def test_a_checkpoint_does_not_change_with_the_run_nor_with_its_restoration():
    run = Run(0, *CASES["adam-onecycle"]).train(7)
    saved = capture(**run.parts)
    copies = {name: tensor.clone() for name, tensor in saved.tensors.items()}
    run.train(3)
    for _ in range(2):
        restore(saved, **run.parts)
        assert len(run.progress["losses"]) == 7
        run.train(13)
    assert all(torch.equal(saved.tensors[name], copies[name]) for name in copies)
    assert len(saved.state["progress"]["losses"]) == 7
    assert saved.state["scheduler"]["last_epoch"] == 7


def test_capturing_changes_nothing():
    whole = Run(0, *CASES["adam-onecycle"]).train(NUM_STEPS)
    watched = Run(0, *CASES["adam-onecycle"])
    for _ in range(NUM_STEPS):
        capture(**watched.parts)
        watched.step()
    assert watched.progress == whole.progress


def test_tensors_are_named_for_where_they_belong():
    run = Run(0, *CASES["adam-onecycle"]).train(1)
    saved = capture(**run.parts)
    assert {
        "model/0.weight",
        "model/1.running_mean",
        "model/3.weight",
        "optimizer/state/3/exp_avg",
        "optimizer/state/0/step",
    } <= saved.tensors.keys()
    assert {name.split("/")[0] for name in saved.tensors} == {"model", "optimizer"}
    assert saved.state["progress"] == run.progress
    assert saved.state["scheduler"]["last_epoch"] == 1
