import pytest
import torch
from torch import nn
from trees import normal

from treefold.operators.binary_gru_kernel import (
    NUM_KEPT,
    NUM_PROJECTIONS,
    combine,
    combine_backward,
    doubled_new,
)

CHANNELS, INNER, PAIRS = 3, 2, 5


@pytest.fixture
def cell():
    torch.manual_seed(0)
    return nn.GRUCell(CHANNELS, CHANNELS).double()


def project(cell, rows):
    """The six projections of each row: `[rows, inner, 6, channels]`."""
    both = [
        nn.functional.linear(rows, cell.weight_ih, cell.bias_ih),
        nn.functional.linear(rows, cell.weight_hh, cell.bias_hh),
    ]
    return torch.cat(both, -1).view(*rows.shape[:-1], NUM_PROJECTIONS, CHANNELS)


def doubled(projections):
    """As `combine` wants them: both that are called new are doubled."""
    return projections * torch.tensor([1.0, 1, 2, 1, 1, 2]).view(-1, 1)


def room_for_pairs():
    """What `combine` writes to: its outcome, and what it keeps."""
    out = torch.empty(PAIRS, INNER, CHANNELS, dtype=torch.float64)
    return out, out.new_empty(2 * PAIRS, INNER, NUM_KEPT, CHANNELS)


def test_gates_combine_projections_into_the_mean_of_both_cells(cell):
    rows = normal(2 * PAIRS, INNER, CHANNELS)
    out, kept = room_for_pairs()
    with torch.no_grad():
        combine(doubled(project(cell, rows)), rows, out, kept)
        a, b = rows[::2].flatten(0, 1), rows[1::2].flatten(0, 1)
        torch.testing.assert_close(out, ((cell(a, b) + cell(b, a)) / 2).view_as(out))


def test_gradients_reach_states_and_projections_as_autograd_says(cell):
    rows = normal(2 * PAIRS, INNER, CHANNELS)
    projections = project(cell, rows).detach()
    grad = normal(PAIRS, INNER, CHANNELS, seed=4)

    out, kept = room_for_pairs()
    combine(doubled(projections), rows, out, kept)
    grad_rows = torch.ones_like(rows)  # what has arrived before stays
    grad_projections = torch.full_like(projections, torch.nan)  # this is written, not added to
    combine_backward(grad, rows, kept, grad_rows, grad_projections)

    inputs = [rows.requires_grad_(), projections.requires_grad_()]
    expected = torch.autograd.grad(by_hand(*inputs), inputs, grad)
    torch.testing.assert_close([grad_rows - 1, grad_projections], list(expected))


def by_hand(rows, projections):
    """The same pairs, in differentiable operations."""
    a, b, from_a, from_b = rows[::2], rows[1::2], projections[::2], projections[1::2]

    def gru(input_side, hidden_side, hidden):
        input_reset, input_update, input_new = input_side.unbind(-2)[:3]
        hidden_reset, hidden_update, hidden_new = hidden_side.unbind(-2)[3:]
        reset = torch.sigmoid(input_reset + hidden_reset)
        update = torch.sigmoid(input_update + hidden_update)
        new = torch.tanh(input_new + reset * hidden_new)
        return (1 - update) * new + update * hidden

    return (gru(from_a, from_b, b) + gru(from_b, from_a, a)) / 2


def test_the_gates_saturate_without_losing_numbers():
    rows = torch.tensor([1e3, -1e3]).view(2, 1, 1)
    projections = torch.full((2, 1, NUM_PROJECTIONS, 1), 1e4)
    out, kept = torch.empty(1, 1, 1), torch.empty(2, 1, NUM_KEPT, 1)
    combine(projections, rows, out, kept)
    assert out.item() == 0.0  # both update gates are open: ½ (b + a)
    combine(-projections, rows, out, kept)
    assert out.item() == -1.0  # both are shut: tanh(-∞)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-7), (torch.float64, 4e-16)])
def test_the_faster_hyperbolic_tangent_is_as_accurate(dtype, error):
    x = torch.linspace(-30, 30, 100_000, dtype=dtype)
    projections = torch.full((100_000, 1, NUM_PROJECTIONS, 1), -1e4, dtype=dtype)
    projections[:, 0, 2, 0], projections[:, 0, 5, 0] = 2 * x, 0  # both update gates are shut
    out = torch.empty(50_000, 1, 1, dtype=dtype)
    kept = torch.empty(100_000, 1, NUM_KEPT, 1, dtype=dtype)
    combine(projections, torch.zeros(100_000, 1, 1, dtype=dtype), out, kept)
    expected = (torch.tanh(x[::2]) + torch.tanh(x[1::2])) / 2
    assert (out.flatten() - expected).abs().max() <= error


def test_only_what_is_called_new_is_doubled():
    stacked = torch.arange(1.0, 13.0)
    found = doubled_new(stacked) / stacked
    assert found.tolist() == [1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 2, 2]
    assert doubled_new(stacked.view(12, 1)).flatten().tolist() == doubled_new(stacked).tolist()
