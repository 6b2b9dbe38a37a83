"""The recurrent aggregator: the swap loss, Janossy averages, and the order of rows."""

import pytest
import torch
from aggr.cases import (
    CHANNELS,
    INDEX,
    RAGGED,
    UNSORTED,
    batch,
    by_hand,
    few,
    make,
    normal,
    seeded,
)
from hypothesis import given
from hypothesis import strategies as st

from treefold import SWAP, RecurrentAggregation, record_penalties
from treefold.algebra import map_state
from treefold.fold import Groups, TableRows
from treefold.fold.reference import fold_chain
from treefold.operators import RecurrentCell, RecurrentGRU

X = normal(len(INDEX), CHANNELS)
NUM_GROUPS = len(RAGGED)
GROUPS = Groups.from_index(UNSORTED, NUM_GROUPS)

cells = pytest.mark.parametrize("cell", ["gru", "lstm"])


class Spelling(RecurrentCell):
    """Appends the row's digit: the answer is the order in which rows came."""

    channels = 1
    initial = torch.zeros(1)

    def forward(self, state, x):
        return 10 * state + x

    def output(self, state):
        return state

    def reset_parameters(self):
        pass


class Adding(Spelling):
    """Minds no order: the swap loss is zero."""

    def forward(self, state, x):
        return state + x


def swap_triples(cell, x, index):
    """Every state with the two rows that come after it, found one by one."""
    triples = []
    for group in range(int(index.max()) + 1):
        rows = list(x[index == group].unsqueeze(1))
        start = map_state(lambda part: part.expand(1, *x.shape[1:]), cell.initial)
        triples += [
            (fold_chain(cell, start, rows[:place]), rows[place], rows[place + 1])
            for place in range(len(rows) - 1)
        ]
    return [
        map_state(lambda *parts: torch.cat(parts), *column) for column in zip(*triples, strict=True)
    ]


def recorded(module, x, index, **options):
    with record_penalties() as penalties:
        module(x, index, **options)
    return penalties.recorded[0].loss


# The swap loss


@cells
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_swap_loss_is_that_of_the_law_on_all_neighbours(cell, reduction):
    module = make(cell, swap=1.0, law_reduction=reduction, shuffle=False).train()
    expected = SWAP.loss(module.cell, *swap_triples(module.cell, X, UNSORTED), reduction=reduction)
    torch.testing.assert_close(recorded(module, X, UNSORTED), expected)


@cells
def test_its_gradient_is_that_of_the_law_on_all_neighbours(cell):
    module, x = make(cell, swap=1.0, shuffle=False).train(), X.clone().requires_grad_()
    inputs = [x, *module.parameters()]
    fast = recorded(module, x, UNSORTED)
    slow = SWAP.loss(module.cell, *swap_triples(module.cell, x, UNSORTED))
    for found, expected in zip(
        *(torch.autograd.grad(loss, inputs) for loss in (fast, slow)), strict=True
    ):
        torch.testing.assert_close(found, expected)


@cells
def test_the_swap_loss_of_towers_is_their_mean(cell):
    module, x = make(cell, swap=1.0, shuffle=False).train(), normal(len(X), 3, CHANNELS)
    towers = [recorded(module, x[:, tower], UNSORTED) for tower in range(3)]
    torch.testing.assert_close(recorded(module, x, UNSORTED, dim=0), sum(towers) / 3)


def test_a_cell_that_minds_no_order_has_no_swap_loss():
    minds, does_not = (RecurrentAggregation(1, cell, swap=1.0) for cell in (Spelling(), Adding()))
    x = torch.arange(1.0, 4.0).view(3, 1)
    assert recorded(does_not, x, torch.zeros(3, dtype=torch.int64)) == 0
    assert recorded(minds, x, torch.zeros(3, dtype=torch.int64)) > 0


def test_each_order_of_a_janossy_average_records_its_loss():
    module = make("gru", swap=1.0, permutations=3).train()
    with record_penalties() as penalties:
        module(X, UNSORTED)
    assert len(penalties) == 3


# Order


@pytest.mark.parametrize(("training", "shuffle"), [(False, True), (True, False)])
def test_rows_come_in_their_own_order_in_evaluation_and_where_shuffling_is_off(training, shuffle):
    module = RecurrentAggregation(1, Spelling(), shuffle=shuffle).train(training)
    x = torch.tensor([1.0, 2, 3, 4, 5]).view(5, 1)
    assert module(x, torch.tensor([0, 2, 0, 2, 0])).squeeze(1).tolist() == [135, 0, 24]


def test_training_shuffles_every_group():
    module = RecurrentAggregation(1, Spelling(), generator=seeded())
    x, index = torch.tensor([1.0, 2.0, 3.0]).repeat(600).view(-1, 1), torch.arange(1800) // 3
    orders, counts = module(x, index).unique(return_counts=True)
    assert orders.tolist() == [123, 132, 213, 231, 312, 321]
    assert ((counts - 100).abs() < 4 * (600 * 5 / 36) ** 0.5).all()


@cells
@pytest.mark.parametrize("permutations", [1, 3])
def test_a_generator_reproduces_training(cell, permutations):
    outs = [
        make(cell, permutations=permutations, generator=seeded(seed)).train()(X, UNSORTED)
        for seed in (3, 3, 4)
    ]
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])


# Janossy averages


@cells
@pytest.mark.parametrize("permutations", [1, 2, 5])
def test_an_average_is_over_the_fixed_orders_of_the_groups(cell, permutations):
    module = make(cell, permutations=permutations)
    orders = [GROUPS.rearranged(number) for number in range(permutations)]
    expected = torch.stack([one_by_one(cell, module, groups) for groups in orders]).mean(0)
    torch.testing.assert_close(module(X, UNSORTED), expected)


def one_by_one(cell, module, groups):
    rows = X[groups.order].split(groups.sizes.tolist())
    return torch.stack([by_hand(cell, module, part) for part in rows])


@cells
def test_averages_repeat_to_the_bit_in_evaluation(cell):
    module = make(cell, permutations=4)
    first = module(X, UNSORTED)
    torch.manual_seed(99)
    assert torch.equal(module(X, UNSORTED), first)


@cells
@few
@given(sizes=st.lists(st.integers(0, 7), max_size=5), size=st.integers(0, 9))
def test_an_average_does_not_depend_on_the_batch(cell, sizes, size):
    module, (x, index) = make(cell, permutations=3), batch([*sizes, size])
    alone = module(x[sum(sizes) :], torch.zeros(size, dtype=torch.int64), dim_size=1)[0]
    torch.testing.assert_close(module(x, index, dim_size=len(sizes) + 1)[-1], alone)


def test_the_orders_of_an_average_differ():
    def orders(size):
        x, index = torch.arange(1.0, size + 1).view(-1, 1), torch.zeros(size, dtype=torch.int64)
        spelled = RecurrentAggregation(1, Spelling(), permutations=1).eval()
        groups = Groups.from_index(index)
        return {spelled.aggregate(x, groups.rearranged(k)).item() for k in range(30)}

    assert len(orders(2)) == 2
    assert len(orders(3)) == 6
    assert len(orders(5)) > 15


def test_an_average_is_drawn_afresh_in_training():
    module = RecurrentAggregation(1, Spelling(), permutations=2, generator=seeded())
    x, index = torch.arange(1.0, 6.0).view(5, 1), torch.zeros(5, dtype=torch.int64)
    assert len({module(x, index).item() for _ in range(10)}) > 5


@cells
def test_gradients_flow_through_an_average(cell):
    module, x = make(cell, permutations=3), X.clone().requires_grad_()
    module(x, UNSORTED).sum().backward()
    assert x.grad.any(1).all()
    assert all(parameter.grad.any() for parameter in module.parameters())


# What it is made of


@cells
def test_rows_may_come_from_a_table(cell):
    module, rows = make(cell), torch.randint(0, 5, (len(X),), generator=seeded())
    torch.testing.assert_close(
        module.aggregate(TableRows(X[:5], rows), GROUPS), module.aggregate(X[:5][rows], GROUPS)
    )


def test_a_cell_may_be_handed_over():
    cell = RecurrentGRU(CHANNELS)
    assert RecurrentAggregation(CHANNELS, cell).cell is cell


def test_a_printed_aggregator_says_what_is_special_about_it():
    module = RecurrentAggregation(4, swap=0.5, permutations=3)
    assert repr(module).splitlines()[:2] == [
        "RecurrentAggregation(",
        "  4, swap=0.5, permutations=3",
    ]
