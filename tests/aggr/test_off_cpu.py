"""Every aggregator on a device that is not the CPU: the same values, and hardly a wait."""

import copy

import pytest
import torch
from aggr.cases import CHANNELS, INDEX, NUM_GROUPS, RAGGED, UNSORTED, every, make, normal
from pretend_device import DEVICE, PretendDevice

from treefold import record_penalties, reuse_plans
from treefold.fold import Groups
from treefold.operators import FiniteSelection, finite_selection

X = normal(len(INDEX), CHANNELS, dtype=torch.float32)
READS_ITS_ROWS = ("finite-counters",)
SEARCHES_ITS_TREES = ("binary-gru-assoc",)
"""The law loss of associativity, in training, asks which nodes have nodes below."""


def on(device, name, index, training=False, groups=None, **given):
    """The groups on a device and the gradient of the rows, and what the host has done for it."""
    module = make(name, dtype=torch.float32).train(training)
    with PretendDevice() as watched:
        module, x = copy.deepcopy(module).to(device), X.clone().to(device).requires_grad_()
        index = None if index is None else index.to(device)
        known = [] if groups is None else [(index, groups.to(device))]
        watched.forget()
        with record_penalties() as penalties, reuse_plans(*known):
            out = module(x, index, **given)
            (out.square().sum() + sum(penalties)).backward()
        seen = [list(each) for each in (watched.waits, watched.copies, watched.doubles)]
        return [out.detach().cpu(), x.grad.cpu()], seen


@every
def test_the_host_waits_once_for_an_index_and_nothing_is_float64(name):
    found, (waits, copies, doubles) = on(DEVICE, name, UNSORTED, dim_size=NUM_GROUPS)
    assert len(waits) <= 1 or name in READS_ITS_ROWS
    assert len(copies) <= 1  # the plan
    assert doubles == []
    expected, _ = on("cpu", name, UNSORTED, dim_size=NUM_GROUPS)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@every
def test_the_host_never_waits_where_it_knows_the_groups(name):
    groups = Groups.from_index(UNSORTED, NUM_GROUPS)
    for training in (False, True) if name not in SEARCHES_ITS_TREES else (False,):
        _, (waits, _, doubles) = on(
            DEVICE, name, UNSORTED, training, groups=groups, dim_size=NUM_GROUPS
        )
        assert doubles == []
        assert waits == [] or name in READS_ITS_ROWS


@every
def test_a_pointer_may_stay_on_the_host(name):
    ptr = torch.tensor([0, *RAGGED]).cumsum(0)
    found, (waits, _, _) = on(DEVICE, name, None, ptr=ptr)
    assert waits == [] or name in READS_ITS_ROWS
    expected, _ = on("cpu", name, None, ptr=ptr)
    torch.testing.assert_close(found[0], expected[0])


def test_groups_of_another_index_are_refused():
    groups = Groups.from_index(UNSORTED, NUM_GROUPS)
    known = (UNSORTED[:3], groups)
    message = "an index of 3 entries on cpu goes with groups of 17 rows"
    with pytest.raises(ValueError, match=message), reuse_plans(known):
        pass


def test_hard_selection_asks_no_device_for_float64_that_has_none(monkeypatch):
    monkeypatch.setattr(finite_selection, "WITHOUT_FLOAT64", (DEVICE.type,))
    operator = FiniteSelection(CHANNELS)
    operator.anneal(slope=8.0, hard=True)
    for training in (False, True):
        operator.train(training)
        expected = operator(X, X.flip(0))
        with PretendDevice() as device:
            moved = copy.deepcopy(operator).to(DEVICE)
            found = moved(X.clone().to(DEVICE), X.flip(0).to(DEVICE))
            assert device.doubles == []
            torch.testing.assert_close(found.cpu(), expected)
