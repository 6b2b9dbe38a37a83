"""A checkpoint has the state of each part, or refuses it by name."""

from functools import partial

import numpy as np
import pytest
import torch
from lab.runs.small_training import CASES, Run, same, states
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import (
    ExponentialLR,
    LambdaLR,
)

from treefold.checkpoints import CheckpointStore
from treefold.lab.runs.state import capture, restore


def test_tied_weights_come_back_equal(tmp_path):
    def tied():
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight = model[0].weight
        return model

    model, other = tied(), tied()
    store = CheckpointStore(tmp_path)
    store.save(capture(model=model))
    restore(store.load(), model=other)
    assert torch.equal(other[0].weight, model[0].weight)
    assert other[1].weight is other[0].weight


def test_half_precision_weights_come_back(tmp_path):
    run = Run(0, partial(SGD, lr=0.1, momentum=0.9), partial(ExponentialLR, gamma=0.5))
    model = run.model.to(torch.bfloat16)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(2, 4, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    store = CheckpointStore(tmp_path)
    store.save(capture(model=model, optimizer=optimizer))
    expected = optimizer.state_dict(), {k: v.clone() for k, v in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    fresh = SGD(model.parameters(), lr=0.1, momentum=0.9)
    restore(store.load(), model=model, optimizer=fresh)
    assert same(fresh.state_dict(), expected[0])
    assert same(dict(model.state_dict()), expected[1])


def test_tuples_and_integer_keys_come_back_as_such(tmp_path):
    part = {"betas": (0.9, 0.999), "by epoch": {1: "a", 2: ("b", [None, True])}}
    store = CheckpointStore(tmp_path)
    store.save(capture(part=part))
    found = {"stale": 1}
    restore(store.load(), part=found)
    assert same(found, part)


def test_some_parts_can_be_restored_alone():
    saved = capture(**Run(0, *CASES["adam-onecycle"]).train(3).parts)
    other = Run(1, *CASES["adam-onecycle"])
    before = states(other)
    restore(saved, model=other.model)
    after = states(other)
    assert torch.equal(other.model[0].weight, saved.tensors["model/0.weight"])
    unchanged = [name for name in before if same(before[name], after[name])]
    assert unchanged == ["optimizer", "others"]


class Warmup:
    """A schedule that is an object: LambdaLR keeps its attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __call__(self, step):
        return 1.0


def test_a_schedule_that_is_an_object_is_kept_if_it_is_plain():
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    saved = capture(scheduler=LambdaLR(optimizer, Warmup(steps=(1, 2), table=torch.ones(3))))
    other = Warmup(steps=(), table=None)
    restore(saved, scheduler=LambdaLR(optimizer, other))
    assert other.steps == (1, 2)
    assert other.table.tolist() == [1, 1, 1]


def test_a_schedule_that_only_pickle_could_keep_is_refused_by_name():
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = LambdaLR(optimizer, Warmup(shape=np.cos))
    with pytest.raises(
        TypeError, match="scheduler/lr_lambdas/0/shape is of type ufunc, which JSON"
    ):
        capture(scheduler=scheduler)
