import copy
import pickle

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from trees import normal, weighted

from treefold.algebra import tensors_of
from treefold.fold import Groups, chain_reduce
from treefold.operators import CELLS, RecurrentGRU, RecurrentLSTM

GROUPS = Groups.from_index(torch.tensor([1, 0, 1, 3, 1, 0]), 4)

cells = pytest.mark.parametrize("name", CELLS)


def make(name, channels=4):
    torch.manual_seed(0)
    cell = CELLS[name](channels).double()
    for initial in tensors_of(cell.initial):
        nn.init.normal_(initial)
    return cell


def torchs(kind, cell):
    """Torch's own cell with the weights of ours."""
    same = kind(4, 4).double()
    same.load_state_dict(
        {name.removesuffix("_l0"): weight for name, weight in cell.rnn.state_dict().items()}
    )
    return same


def test_one_step_of_a_gru_is_that_of_torchs_cell():
    cell, state, x = make("gru"), normal(9, 4, seed=1), normal(9, 4, seed=2)
    torch.testing.assert_close(cell(state, x), torchs(nn.GRUCell, cell)(x, state))
    assert cell.output(state) is state


def test_one_step_of_an_lstm_is_that_of_torchs_cell():
    cell, x = make("lstm"), normal(9, 4, seed=3)
    state = (normal(9, 4, seed=1), normal(9, 4, seed=2))
    torch.testing.assert_close(cell(state, x), torchs(nn.LSTMCell, cell)(x, state))
    assert cell.output(state) is state[0]


@cells
def test_all_axes_but_the_last_are_open(name):
    cell, x = make(name), normal(3, 2, 4)
    state = tuple(normal(3, 2, 4, seed=1 + part) for part in range(len(tensors_of(cell.initial))))
    state = state if len(state) > 1 else state[0]
    flat = tuple(part.view(6, 4) for part in tensors_of(state))
    after = cell(state, x)
    expected = cell(flat if len(flat) > 1 else flat[0], x.view(6, 4))
    for part, row in zip(tensors_of(after), tensors_of(expected), strict=True):
        torch.testing.assert_close(part, row.view(3, 2, 4))


def test_states_start_from_learned_zeros():
    gru, lstm = RecurrentGRU(4), RecurrentLSTM(4)
    for initial in (gru.initial, *lstm.initial):
        assert isinstance(initial, nn.Parameter)
        assert initial.tolist() == [0.0] * 4


@cells
def test_resetting_draws_anew_and_starts_from_zero_again(name):
    cell = make(name)
    before = [parameter.clone() for parameter in cell.parameters()]
    cell.reset_parameters()
    assert all(
        not torch.equal(old, new) for old, new in zip(before, cell.parameters(), strict=True)
    )
    assert all(initial.abs().max() == 0 for initial in tensors_of(cell.initial))


def reduce(cell, x):
    return cell.output(chain_reduce(cell, x, GROUPS, cell.initial))


@cells
def test_gradients_are_those_of_finite_differences(name):
    cell, x = make(name, channels=2), normal(6, 2).requires_grad_()
    assert gradcheck(lambda x, *_: reduce(cell, x), (x, *cell.parameters()), fast_mode=True)


@cells
def test_copies_pickles_and_loaded_states_answer_bit_for_bit(name):
    cell, x = make(name), normal(6, 4)
    loaded = CELLS[name](4).double()
    loaded.load_state_dict(cell.state_dict())
    for same in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell)), loaded):
        assert torch.equal(reduce(same, x), reduce(cell, x))


class Running(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        return reduce(self.cell, x)


@cells
def test_stacked_parameters_under_vmap_are_a_loop(name):
    torch.manual_seed(1)
    models = [Running(CELLS[name](4).double()) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    x = normal(6, 4)

    def run(parameters, buffers):
        return torch.func.functional_call(models[0], (parameters, buffers), (x,))

    out = torch.vmap(run)(parameters, buffers)
    torch.testing.assert_close(out, torch.stack([model(x) for model in models]))


@cells
def test_functional_gradients_are_autograds(name):
    model, x = Running(make(name)), normal(6, 4)
    parameters = dict(model.named_parameters())

    def loss(parameters):
        return weighted(torch.func.functional_call(model, parameters, (x,)))

    found = torch.func.grad(loss)({key: value.detach() for key, value in parameters.items()})
    expected = torch.autograd.grad(weighted(model(x)), list(parameters.values()))
    torch.testing.assert_close([found[key] for key in parameters], list(expected))


@cells
def test_parameters_given_to_a_call_are_the_ones_used(name):
    model, other, x = Running(make(name)), Running(make(name)), normal(6, 4)
    other.cell.reset_parameters()
    out = torch.func.functional_call(model, dict(other.named_parameters()), (x,))
    torch.testing.assert_close(out, other(x))


@cells
def test_second_derivatives_are_those_of_finite_differences(name):
    cell, x = make(name, channels=2), normal(6, 2).requires_grad_()
    inputs = (x, *cell.parameters())
    assert gradgradcheck(lambda x, *_: reduce(cell, x), inputs, fast_mode=True)


def test_printing_says_how_wide_a_cell_is():
    assert repr(RecurrentGRU(5)) == "RecurrentGRU(\n  5\n  (rnn): GRU(5, 5)\n)"


LENGTHS = {
    "ragged": [3, 0, 1, 8, 5, 2, 0, 1, 13],
    "one long": [300],
    "many": [9] * 70,
    "single rows": [1, 1, 1],
}


def chains(cell, x, groups):
    """The states at the end and the gradients by rows, start and weights."""
    out = chain_reduce(cell, x, groups, cell.initial)
    return [out, *torch.autograd.grad(weighted(out), [x, *cell.parameters()])]


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("inner", [(), (3,)])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_compiled_loops_agree_with_torchs_own_in_double_precision(lengths, inner, num_threads):
    groups = Groups.from_sizes(LENGTHS[lengths])
    cell, x = make("gru", 32), normal(groups.num_rows, *inner, 32).requires_grad_()
    expected = chains(cell, x, groups)
    cell, x = cell.float(), x.detach().float().requires_grad_()
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        found = chains(cell, x, groups)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(found, [each.float() for each in expected], atol=1e-4, rtol=1e-4)


def test_compiled_loops_can_be_done_without(monkeypatch):
    groups = Groups.from_sizes(LENGTHS["ragged"])
    cell, x = make("gru").float(), normal(groups.num_rows, 4).float().requires_grad_()
    compiled = chains(cell, x, groups)
    monkeypatch.setattr("treefold.operators.gru_chain.can_compute", lambda *_: False)
    torch.testing.assert_close(chains(cell, x, groups), compiled, atol=1e-5, rtol=1e-5)


def test_gradients_of_compiled_loops_can_be_differentiated_again():
    groups, found = Groups.from_sizes([4, 1, 3]), []
    for dtype in (torch.float32, torch.float64):
        cell, x = make("gru").to(dtype), normal(8, 4).to(dtype).requires_grad_()
        out = chain_reduce(cell, x, groups, cell.initial)
        (gradient,) = torch.autograd.grad(weighted(out), x, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), [x, *cell.parameters()]))
    expected = [each.float() for each in found[1]]
    torch.testing.assert_close(list(found[0]), expected, atol=1e-5, rtol=1e-4)
