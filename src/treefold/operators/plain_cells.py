"""One step of torch's recurrent cells in plain operations, which torch.func can see through."""

import torch
from torch import Tensor
from torch.nn import functional as F


def gru_step(
    x: Tensor,
    hidden: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor,
) -> Tensor:
    """The hidden state after one more row, as `torch.nn.GRUCell` computes it, for any axes."""
    of_input, of_hidden = F.linear(x, weight_ih, bias_ih), F.linear(hidden, weight_hh, bias_hh)
    return gru_gates(of_input, of_hidden, hidden)


def gru_gates(of_input: Tensor, of_hidden: Tensor, hidden: Tensor) -> Tensor:
    """The rest of `gru_step`, given both multiplications."""
    input_reset, input_update, input_new = of_input.chunk(3, -1)
    hidden_reset, hidden_update, hidden_new = of_hidden.chunk(3, -1)
    reset = torch.sigmoid(input_reset + hidden_reset)
    update = torch.sigmoid(input_update + hidden_update)
    new = torch.tanh(input_new + reset * hidden_new)
    return new + update * (hidden - new)


def lstm_step(
    x: Tensor,
    state: tuple[Tensor, Tensor],
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor,
) -> tuple[Tensor, Tensor]:
    """The hidden and the cell state after one more row, as `torch.nn.LSTMCell` computes them."""
    hidden, cell = state
    gates = F.linear(x, weight_ih, bias_ih) + F.linear(hidden, weight_hh, bias_hh)
    admit, forget, content, expose = gates.chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(admit) * torch.tanh(content)
    return torch.sigmoid(expose) * torch.tanh(cell), cell
