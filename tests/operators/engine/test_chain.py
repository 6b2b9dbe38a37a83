"""A GRU along packed rows is an operation of torch in every respect."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from trees import normal, weighted

from treefold.fold import Groups, PackedOrder, chain_reduce
from treefold.operators import RecurrentGRU
from treefold.operators.engine.operations import why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason="chains run in plain torch here")

SIZES = [3, 0, 1, 8, 5, 2]
TOTAL, CHANNELS = sum(SIZES), 4


def make(channels=CHANNELS):
    torch.manual_seed(0)
    return RecurrentGRU(channels).double()


def arguments(*, saves=True, sizes=SIZES, channels=CHANNELS):
    packed = PackedOrder.of(Groups.from_sizes(sizes))
    rows = normal(sum(sizes), channels).requires_grad_()
    start = normal(packed.by_length.numel(), channels, seed=1).requires_grad_()
    return rows, start, *make(channels).rnn.all_weights[0], packed.batch_sizes, False, saves


def chain(*given):
    return torch.ops.treefold.gru_chain(*given)


def test_torch_finds_nothing_wrong_with_the_operation():
    torch.library.opcheck(torch.ops.treefold.gru_chain.default, arguments())


def test_torch_finds_nothing_wrong_with_the_operation_of_its_gradient():
    with torch.no_grad():
        *tensors, half, saves = arguments()
        states, saved = chain(*tensors, half, saves)
        torch.library.opcheck(
            torch.ops.treefold.gru_chain_backward.default,
            (normal(*states.shape, seed=2), *tensors, states, saved, half),
            test_utils=["test_schema", "test_faketensor"],
        )


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_its_gradients_are_those_of_finite_differences(check):
    given = arguments(sizes=[3, 1, 0], channels=2)
    assert check(lambda *tensors: chain(*tensors, *given[-3:])[0], given[:-3], fast_mode=True)


def test_batches_are_run_one_by_one():
    given, others = arguments(saves=False), normal(3, TOTAL, CHANNELS)
    with torch.no_grad():
        found = torch.vmap(lambda rows: chain(rows, *given[1:])[0])(others)
        expected = torch.stack([chain(rows, *given[1:])[0] for rows in others])
    torch.testing.assert_close(found, expected)


def test_gradients_can_be_batched():
    given = arguments()
    states = chain(*given)[0]
    directions = normal(3, *states.shape)
    (found,) = torch.autograd.grad(
        states, given[0], directions, is_grads_batched=True, retain_graph=True
    )
    expected = [
        torch.autograd.grad(states, given[0], each, retain_graph=True)[0] for each in directions
    ]
    torch.testing.assert_close(found, torch.stack(expected))


def test_repeating_a_chain_repeats_every_bit():
    given = arguments()
    first, second = (torch.autograd.grad(weighted(chain(*given)[0]), given[:-3]) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_without_a_gradient_to_come_nothing_is_saved_for_it():
    states, saved = chain(*arguments())
    assert saved.shape == (TOTAL, 4 * CHANNELS)
    with torch.no_grad():
        quiet, nothing = chain(*arguments(saves=False))
    assert nothing.shape == (0, 4 * CHANNELS)
    assert torch.equal(quiet, states)


def test_a_gradient_needs_what_the_chain_saves():
    with pytest.raises(RuntimeError, match="run it with `saves`"):
        chain(*arguments(saves=False))[0].sum().backward()


@pytest.mark.parametrize(
    ("position", "wrong", "words"),
    [
        (0, torch.zeros(TOTAL + 1, CHANNELS).double(), f"steps have {TOTAL} rows; expected"),
        (1, torch.zeros(5, CHANNELS), "start is Float of shape"),
        (2, torch.zeros(CHANNELS, CHANNELS).double(), "weight_ih is Double of shape"),
        (6, torch.tensor([2, 3]), "step 1 has 3 rows; expected 1 to 2"),
        (6, torch.tensor([2.0]), "batch_sizes are Double|Float"),
    ],
)
def test_arguments_that_do_not_fit_are_errors(position, wrong, words):
    given = list(arguments())
    given[position] = wrong
    with pytest.raises(RuntimeError, match=words):
        chain(*given)


def test_rows_that_are_half_as_wide_under_autocast_are_taken_as_they_are():
    cell, groups = make().float(), Groups.from_sizes(SIZES)
    x = normal(TOTAL, CHANNELS).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = chain_reduce(cell, x.bfloat16(), groups, cell.initial)
        expected = chain_reduce(cell, x, groups, cell.initial)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, expected, atol=0.02, rtol=0.02)
