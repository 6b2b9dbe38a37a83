"""The gates and their gradients: in torch's operations, and compiled."""

import pytest
import torch
from torch import nn
from trees import normal, seeded

from treefold.operators.binary_gru_kernel import (
    NUM_KEPT,
    NUM_PROJECTIONS,
    Projections,
    combine,
    combine_backward,
    doubled_new,
)
from treefold.operators.binary_gru_loops import compiled_loops, loops_for
from treefold.operators.binary_gru_torch import TorchLoops

CHANNELS, INNER, PAIRS = 3, 2, 5
DOUBLE, SINGLE = torch.float64, torch.float32

needs_numba = pytest.mark.skipif(compiled_loops() is None, reason="numba is not installed")


class InTorch:
    """Torch's operations: all that is called new comes doubled."""

    combine, combine_backward = staticmethod(combine), staticmethod(combine_backward)

    def prepare(self, weight, bias):
        return doubled_new(weight), doubled_new(bias).view(NUM_PROJECTIONS, -1)

    def bias_room(self, bias):
        return torch.zeros_like(bias)

    def bias_gradient(self, found):
        return found


class Compiled:
    """Compiled loops: the biases of both sides' reset and update are one."""

    def __init__(self, is_final=False):
        self.is_final = is_final

    def prepare(self, weight, bias):
        inputs, hidden = bias.view(2, 3, -1)
        return weight, torch.cat([*(inputs + hidden)[:2], inputs[2], hidden[2]])

    def combine(self, projections, bias, rows, out, kept):
        from treefold.operators.kernels import binary_gru  # noqa: PLC0415 (needs numba)
        from treefold.operators.kernels.compiling import width_of  # noqa: PLC0415 (needs numba)

        span = (0, len(out), width_of(out.shape[2]))
        where = torch.arange(len(rows)) if projections.where is None else projections.where
        arrays = [projections.source.flatten(2), where, bias, rows, out]
        if self.is_final:
            binary_gru.combine_finally(*(each.numpy() for each in arrays), *span)
        else:
            arrays.append(kept.flatten(2))
            binary_gru.combine(*(each.numpy() for each in arrays), *span)

    def combine_backward(self, grad, rows, kept, grad_rows, grad_projections, grad_bias):
        from treefold.operators.kernels import binary_gru  # noqa: PLC0415 (needs numba)
        from treefold.operators.kernels.compiling import width_of  # noqa: PLC0415 (needs numba)

        source, where = grad_projections
        adds, where = where is not None, torch.arange(len(rows)) if where is None else where
        arrays = [grad, rows, kept.flatten(2), grad_rows, source.flatten(2), where]
        arrays = [each.numpy() for each in arrays]
        span = (0, len(grad), width_of(grad.shape[2]))
        binary_gru.combine_backward(*arrays, adds, grad_bias.numpy(), *span)

    def bias_room(self, bias):
        return bias.new_zeros(NUM_KEPT * bias.numel() // NUM_PROJECTIONS)

    def bias_gradient(self, found):
        reset, update, new, hidden_new = found.chunk(NUM_KEPT)
        return torch.cat([reset, update, new, reset, update, hidden_new])


WITH_GRADIENTS = [
    pytest.param((InTorch(), DOUBLE), id="torch-float64"),
    pytest.param((InTorch(), SINGLE), id="torch-float32"),
    pytest.param((Compiled(), SINGLE), id="compiled", marks=needs_numba),
]
FINAL = pytest.param((Compiled(is_final=True), SINGLE), id="compiled-final", marks=needs_numba)


@pytest.fixture(params=[*WITH_GRADIENTS, FINAL])
def work(request):
    """An arithmetic, and the type of number it is tried with."""
    return request.param


@pytest.fixture(params=WITH_GRADIENTS)
def differentiable(request):
    """One that keeps what gradients need."""
    return request.param


def cell_of(dtype, channels=CHANNELS):
    torch.manual_seed(0)
    return nn.GRUCell(channels, channels, dtype=dtype)


def stacked(cell):
    weight = torch.cat([cell.weight_ih, cell.weight_hh]).detach()
    return weight, torch.cat([cell.bias_ih, cell.bias_hh]).detach()


def project(rows, weight):
    """The six projections of each row, without biases: `[rows, inner, 6, channels]`."""
    return (rows @ weight.t()).unflatten(-1, (NUM_PROJECTIONS, -1))


def combined(arithmetic, cell, rows, where=None):
    """a ⊕ b for neighbouring rows, and what is kept for the gradient."""
    weight, bias = arithmetic.prepare(*stacked(cell))
    source = project(rows, weight)
    if where is not None:  # the same projections, elsewhere
        places = torch.randperm(len(rows) + 3, generator=seeded())[: len(rows)]
        elsewhere = source.new_full((len(rows) + 3, *source.shape[1:]), torch.nan)
        source, where = elsewhere.index_copy(0, places, source), places
    out = rows.new_empty(len(rows) // 2, *rows.shape[1:])
    kept = rows.new_empty(*rows.shape[:2], NUM_KEPT, rows.shape[2])
    arithmetic.combine(Projections(source, where), bias, rows, out, kept)
    return out, kept


@pytest.mark.parametrize("where", [None, "elsewhere"])
@pytest.mark.parametrize("channels", [1, 3, 16, 33, 128])
def test_gates_combine_projections_into_the_mean_of_both_cells(work, where, channels):
    arithmetic, dtype = work
    cell, rows = cell_of(dtype, channels), normal(2 * PAIRS, INNER, channels, dtype=dtype)
    out, _ = combined(arithmetic, cell, rows, where)
    with torch.no_grad():
        a, b = rows[::2].flatten(0, 1), rows[1::2].flatten(0, 1)
        torch.testing.assert_close(out, ((cell(a, b) + cell(b, a)) / 2).view_as(out))


@pytest.mark.parametrize("channels", [32, 48])
def test_gradients_reach_states_and_projections_as_autograd_says(differentiable, channels):
    arithmetic, dtype = differentiable
    cell = cell_of(dtype, channels)
    rows = normal(2 * PAIRS, INNER, channels, dtype=dtype)
    grad = normal(PAIRS, INNER, channels, seed=4, dtype=dtype)
    _, kept = combined(arithmetic, cell, rows)
    weight, bias = stacked(cell)
    projections = project(rows, weight)

    grad_rows = torch.ones_like(rows)  # what has arrived before stays
    found = torch.full_like(projections, torch.nan)  # this is written, not added to
    grad_bias = arithmetic.bias_room(bias)
    arithmetic.combine_backward(grad, rows, kept, grad_rows, Projections(found, None), grad_bias)

    inputs = [tensor.requires_grad_() for tensor in (rows, projections, bias)]
    expected = torch.autograd.grad(by_hand(*inputs), inputs, grad)
    gradients = [grad_rows - 1, found, arithmetic.bias_gradient(grad_bias)]
    torch.testing.assert_close(gradients, list(expected), atol=1e-4, rtol=1e-4)
    if dtype == DOUBLE:
        torch.testing.assert_close(gradients, list(expected))


def test_gradients_of_gathered_projections_add_up_where_they_came_from(differentiable):
    arithmetic, dtype = differentiable
    cell, rows = cell_of(dtype), normal(2 * PAIRS, INNER, CHANNELS, dtype=dtype)
    _, kept = combined(arithmetic, cell, rows)
    grad, where = normal(PAIRS, INNER, CHANNELS, dtype=dtype), torch.arange(2 * PAIRS) % 3
    written = rows.new_empty(2 * PAIRS, INNER, NUM_PROJECTIONS, CHANNELS)
    added = torch.ones_like(written[:4])
    for into in (Projections(written, None), Projections(added, where)):
        room = arithmetic.bias_room(stacked(cell)[1])
        arithmetic.combine_backward(grad, rows, kept, torch.zeros_like(rows), into, room)
    torch.testing.assert_close(added, torch.ones_like(added).index_add(0, where, written))


def by_hand(rows, projections, bias):
    """The same pairs, in differentiable operations."""
    projections = projections + bias.view(NUM_PROJECTIONS, -1)
    a, b, from_a, from_b = rows[::2], rows[1::2], projections[::2], projections[1::2]

    def gru(input_side, hidden_side, hidden):
        input_reset, input_update, input_new = input_side.unbind(-2)[:3]
        hidden_reset, hidden_update, hidden_new = hidden_side.unbind(-2)[3:]
        reset = torch.sigmoid(input_reset + hidden_reset)
        update = torch.sigmoid(input_update + hidden_update)
        new = torch.tanh(input_new + reset * hidden_new)
        return (1 - update) * new + update * hidden

    return (gru(from_a, from_b, b) + gru(from_b, from_a, a)) / 2


def applied(arithmetic, projections, rows):
    """What comes of given projections, all biases being zero."""
    pairs, inner, channels = len(rows) // 2, rows.shape[1], rows.shape[2]
    weight = torch.zeros(NUM_PROJECTIONS * channels, channels, dtype=rows.dtype)
    _, bias = arithmetic.prepare(weight, weight[:, 0].clone())
    out = rows.new_empty(pairs, inner, channels)
    kept = rows.new_empty(2 * pairs, inner, NUM_KEPT, channels)
    arithmetic.combine(Projections(projections, None), bias, rows, out, kept)
    return out


def test_the_gates_saturate_without_losing_numbers(work):
    arithmetic, dtype = work
    rows = torch.tensor([1e3, -1e3], dtype=dtype).view(2, 1, 1)
    for size in (1e4, torch.inf):
        projections = torch.full((2, 1, NUM_PROJECTIONS, 1), size, dtype=dtype)
        assert applied(arithmetic, projections.clone(), rows).item() == 0.0  # open: ½ (b + a)
    projections = torch.full((2, 1, NUM_PROJECTIONS, 1), -1e4, dtype=dtype)
    assert applied(arithmetic, projections, rows).item() == -1.0  # shut: tanh(-∞)


@pytest.mark.parametrize("projection", range(NUM_PROJECTIONS))
def test_what_is_not_a_number_stays_visible(work, projection):
    arithmetic, dtype = work
    projections = torch.zeros(2, 1, NUM_PROJECTIONS, 9, dtype=dtype)
    projections[0, 0, projection, 4] = torch.nan
    out = applied(arithmetic, projections, torch.ones(2, 1, 9, dtype=dtype))
    assert out.isnan().nonzero().tolist() == [[0, 0, 4]]


def test_the_faster_hyperbolic_tangent_is_as_accurate(work):
    arithmetic, dtype = work
    x = torch.linspace(-30, 30, 100_000, dtype=dtype)
    projections = torch.full((100_000, 1, NUM_PROJECTIONS, 1), -1e4, dtype=dtype)
    doubled = 2 if isinstance(arithmetic, InTorch) else 1
    projections[:, 0, 2, 0], projections[:, 0, 5, 0] = doubled * x, 0  # update gates are shut
    out = applied(arithmetic, projections, torch.zeros(100_000, 1, 1, dtype=dtype))
    expected = (torch.tanh(x[::2]) + torch.tanh(x[1::2])) / 2
    error = 4e-16 if dtype == DOUBLE else 2.5e-7
    assert (out.flatten() - expected).abs().max() <= error


@needs_numba
def test_compiled_loops_are_used_for_states_in_single_precision_on_cpus_only():
    single = torch.empty(1, 2, dtype=SINGLE)
    assert loops_for(single, SINGLE) is compiled_loops()
    assert isinstance(loops_for(single, torch.float16), TorchLoops)
    assert isinstance(loops_for(torch.empty(1, 2, dtype=DOUBLE), DOUBLE), TorchLoops)
    assert isinstance(loops_for(torch.empty(1, 2, device="meta"), SINGLE), TorchLoops)


@needs_numba
def test_compiled_loops_multiply_halves_in_pairs_and_where_torch_can(monkeypatch):
    from treefold.operators.kernels.halves import can_multiply_halves  # noqa: PLC0415 (needs numba)

    paired, odd = torch.empty(1, 2, dtype=SINGLE), torch.empty(1, 3, dtype=SINGLE)
    found = loops_for(paired, torch.bfloat16)
    assert (found is compiled_loops()) == can_multiply_halves()
    assert isinstance(loops_for(odd, torch.bfloat16), TorchLoops)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert isinstance(loops_for(paired, torch.bfloat16), TorchLoops)


def test_only_what_is_called_new_is_doubled():
    stacked = torch.arange(1.0, 13.0)
    found = doubled_new(stacked) / stacked
    assert found.tolist() == [1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 2, 2]
    assert doubled_new(stacked.view(12, 1)).flatten().tolist() == doubled_new(stacked).tolist()
