"""Off the CPU the host waits once for a plan, and not at all where it knows the sizes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pretend_device import DEVICE, PretendDevice
from trees import BRACKETINGS, SIZES, seeded, some, trees_of

from treefold.fold import Groups, plan_tree, transfer
from treefold.fold.transfer import send

INDEX = torch.tensor([2, 0, 2, 1, 0, 5, 2])


def on_the_host(groups):
    return groups.sizes.cpu().tolist(), groups.order.cpu().tolist(), groups.num_rows


@some
@given(st.lists(st.integers(0, 6), max_size=30), st.integers(0, 3))
def test_an_index_elsewhere_makes_the_same_groups_and_is_waited_for_once(index, spare):
    index, num_groups = torch.tensor(index, dtype=torch.int64), max(index, default=-1) + 1 + spare
    expected = on_the_host(Groups.from_index(index, num_groups))
    for known in (num_groups, None) if spare == 0 else (num_groups,):
        with PretendDevice() as device:
            moved = index.to(DEVICE)
            groups = Groups.from_index(moved, known)
            assert groups.sizes.device == groups.order.device == DEVICE
            plan_tree(groups.host_sizes, device=DEVICE)
            assert len(device.waits) <= 1
            assert on_the_host(groups) == expected


@pytest.mark.parametrize(
    ("index", "num_groups", "message"),
    [
        ([0, -1, 2], 3, "index holds -1; expected values from 0 on"),
        ([0, 7, 2], 3, "index holds 7, expected values from 0 to 2"),
        ([0, 1], -1, "the number of groups is -1"),
        ([0, -2], None, "index holds -2"),
    ],
)
def test_a_bad_index_elsewhere_is_refused_in_the_same_words(index, num_groups, message):
    for device in ("cpu", DEVICE):
        with PretendDevice(), pytest.raises(ValueError, match=message):
            Groups.from_index(torch.tensor(index).to(device), num_groups)


@pytest.mark.parametrize("make", ["from_ptr", "from_sizes"])
def test_pointers_and_sizes_elsewhere_are_waited_for_once(make):
    given = torch.tensor([0, 3, 3, 8] if make == "from_ptr" else [3, 0, 5])
    expected = on_the_host(getattr(Groups, make)(given, 8))
    with PretendDevice() as device:
        groups = getattr(Groups, make)(given.to(DEVICE), 8)
        plan = plan_tree(groups.host_sizes, device=DEVICE)
        assert len(device.waits) == 1
        assert on_the_host(groups) == expected
        assert plan.leaves.device == DEVICE


@pytest.mark.parametrize("bracketing", BRACKETINGS)
def test_groups_that_were_moved_are_shuffled_and_planned_without_waiting(bracketing):
    groups = Groups.from_index(INDEX, 6)
    with PretendDevice() as device:
        moved = groups.to(DEVICE)
        assert len(device.copies) == 1
        shuffled = moved.shuffled(seeded())
        assert len(device.copies) == 2  # the random order
        plan = plan_tree(shuffled.host_sizes, bracketing, seeded(1), DEVICE)
        assert len(device.copies) == 3
        assert moved.max_size == 3
        assert device.waits == []
        assert shuffled.order.cpu().tolist() == groups.shuffled(seeded()).order.tolist()
        assert trees_of(plan.to("cpu")) == trees_of(plan_tree(groups.sizes, bracketing, seeded(1)))


@some
@given(SIZES, st.sampled_from(BRACKETINGS))
def test_a_plan_that_is_moved_knows_the_places_of_children_and_groups(sizes, bracketing):
    plan = plan_tree(sizes, bracketing, seeded())
    with PretendDevice() as device:
        moved = plan.to(DEVICE)
        children, places = moved.children, moved.tables.groups
        assert len(device.copies) == 1
        assert device.waits == device.doubles == []
        assert children.cpu().tolist() == plan.children.tolist()
        assert places.cpu().tolist() == plan.tables.groups.tolist()


def test_sizes_elsewhere_are_planned_there_after_one_wait():
    sizes = torch.tensor([3, 0, 1, 2])
    with PretendDevice() as device:
        plan = plan_tree(sizes.to(DEVICE))
        assert len(device.waits) == 1
        assert plan.leaves.device == DEVICE
        assert plan.leaves.cpu().tolist() == plan_tree(sizes).leaves.tolist()


def test_what_is_copied_without_waiting_is_pinned_first(monkeypatch):
    pinned = []
    monkeypatch.setattr(transfer, "WITHOUT_WAITING", (DEVICE.type,))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append(self) or self)
    with PretendDevice() as device:
        first, second = send([torch.arange(3), torch.ones(2, 4, dtype=torch.int64)], DEVICE)
        assert [each.tolist() for each in pinned] == [[0, 1, 2, *[1] * 8]]
        assert device.copies == [(11,)]
        assert first.cpu().tolist() == [0, 1, 2]
        assert second.cpu().tolist() == [[1] * 4] * 2
