"""Over shards, streams and processes, a finite monoid gives the same element to the bit."""

import pytest
import torch
from distributed.processes import in_processes
from finite.machines import SECOND, closed

from treefold import Groups, plan_tree, tree_reduce
from treefold.distributed import sharded_reduce
from treefold.incremental import StreamingFold

NUM_SETS, NUM_VALUES = 7, 200


def dealt(seed, parts):
    """The same values of the same sets, in another order and cut at other places."""
    fixed, chance = (torch.Generator().manual_seed(s) for s in (0, seed))
    values = torch.randint(0, 8, (NUM_VALUES,), generator=fixed)
    sets = torch.randint(0, NUM_SETS, (NUM_VALUES,), generator=fixed)
    order = torch.randperm(NUM_VALUES, generator=chance)
    cuts = torch.randint(0, NUM_VALUES, (parts - 1,), generator=chance).sort().values.tolist()
    return [(values[part], sets[part]) for part in order.tensor_split(cuts)]


def folded(finite, values, sets):
    groups = Groups.from_index(sets, NUM_SETS)
    return tree_reduce(finite, finite.encode(values)[groups.order], plan_tree(groups.sizes))


def share(rank, world_size):
    finite = closed(SECOND)
    return [
        sharded_reduce(finite, finite.encode(values), Groups.from_index(sets, NUM_SETS))
        for values, sets in (dealt(seed, world_size)[rank] for seed in range(3))
    ]


@pytest.fixture
def expected():
    ((values, sets),) = dealt(0, 1)
    return folded(closed(SECOND), values, sets)


def test_processes_come_to_the_same_whoever_holds_what(tmp_path, expected):
    for rank in in_processes(2, share, tmp_path):
        assert all(torch.equal(states, expected) for states in rank)


@pytest.mark.parametrize("seed", range(5))
def test_shards_are_merged_in_any_order(seed, expected):
    finite = closed(SECOND, trees=seed % 2 == 0)
    parts = torch.stack([folded(finite, *part) for part in dealt(seed, 6)])
    together = parts[0]
    for number in torch.randperm(5, generator=torch.Generator().manual_seed(seed)) + 1:
        together = finite(parts[number], together)
    assert torch.equal(together, expected)


@pytest.mark.parametrize("seed", range(3))
def test_streams_in_any_order_come_to_the_fold(seed, expected):
    finite = closed(SECOND)
    stream, fed = StreamingFold(finite, num_sets=NUM_SETS), torch.zeros(NUM_SETS).long()
    for values, sets in dealt(seed, 9):
        stream.feed(finite.encode(values), sets)
        finite.feed(fed, sets, values)
    assert torch.equal(stream.value(), expected)
    assert torch.equal(fed, expected)
