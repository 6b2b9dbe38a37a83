"""Recurrent cells as folds over lists: torch's GRU and LSTM, with a learned initial state."""

from abc import ABC, abstractmethod
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from treefold.algebra import State
from treefold.fold import Chain, PackedOrder, fold_steps, start_states
from treefold.operators.gru_chain import chain_gru
from treefold.operators.plain_cells import gru_step, lstm_step
from treefold.operators.transforms import are_transforms_active


class RecurrentCell(nn.Module, ABC):
    """A learned `state = cell(state, x)`, with the state to start from and what to read off it."""

    channels: int
    at_hand: tuple[nn.Parameter, ...] = ()
    """All parameters, for torch.compile, which refuses to look into torch's own GRU and LSTM."""

    @property
    @abstractmethod
    def initial(self) -> State:
        """The state before any row: what an empty group gives."""

    @abstractmethod
    def forward(self, state: State, x: Tensor) -> State:
        """The state after one more row."""

    @abstractmethod
    def output(self, state: State) -> Tensor:
        """The output of a state."""

    @abstractmethod
    def reset_parameters(self) -> None:
        """Reset all parameters; the initial state becomes zero."""

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.at_hand = tuple(self.parameters())  # on another device they are other objects
        return self

    def extra_repr(self) -> str:
        """The number of channels, for `print(cell)`."""
        return str(self.channels)


class RecurrentGRU(RecurrentCell):
    """A GRU: `torch.nn.GRU` over packed rows, its single step one at a time."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.rnn = nn.GRU(channels, channels)
        self.initial_hidden = nn.Parameter(torch.zeros(channels))
        self.at_hand = tuple(self.parameters())

    @property
    def initial(self) -> Tensor:
        """The learned hidden state before any row."""
        return self.initial_hidden

    def forward(self, state: State, x: Tensor) -> Tensor:
        """One step for rows `[*n, channels]`."""
        return gru_step(x, cast(Tensor, state), *self.rnn.all_weights[0])

    def output(self, state: State) -> Tensor:
        """The hidden state."""
        return cast(Tensor, state)

    def reset_parameters(self) -> None:
        """Reset the cell."""
        self.rnn.reset_parameters()
        nn.init.zeros_(self.initial_hidden)

    def fold_packed(
        self, x: State, packed: PackedOrder, initial: State, keep_states: bool
    ) -> Chain:
        """Along all groups at once, in compiled loops, or else by torch's own."""
        rows = cast(Tensor, x)
        if are_transforms_active():
            return fold_steps(self, rows, packed, initial)
        start = cast(Tensor, start_states(initial, rows, packed.by_length.numel()))
        flat, begin = rows.reshape(-1, self.channels), start.reshape(-1, self.channels)
        states = chain_gru(packed, flat, begin, self.rnn.all_weights[0])
        if states is not None:
            states = states.view(rows.shape)
            return Chain(states.index_select(0, packed.last), states)
        states, last = self.rnn(_pack(rows, packed), begin.unsqueeze(0))
        return Chain(last.view(start.shape), states.data.view(rows.shape))


class RecurrentLSTM(RecurrentCell):
    """An LSTM: `torch.nn.LSTM` over packed rows; a state is (hidden, cell), its output hidden."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.rnn = nn.LSTM(channels, channels)
        self.initial_hidden = nn.Parameter(torch.zeros(channels))
        self.initial_cell = nn.Parameter(torch.zeros(channels))
        self.at_hand = tuple(self.parameters())

    @property
    def initial(self) -> tuple[Tensor, Tensor]:
        """The learned hidden and cell state before any row."""
        return self.initial_hidden, self.initial_cell

    def forward(self, state: State, x: Tensor) -> tuple[Tensor, Tensor]:
        """One step for rows `[*n, channels]`."""
        return lstm_step(x, cast(tuple[Tensor, Tensor], state), *self.rnn.all_weights[0])

    def output(self, state: State) -> Tensor:
        """The hidden part of the state."""
        return cast(tuple[Tensor, Tensor], state)[0]

    def reset_parameters(self) -> None:
        """Reset the cell."""
        self.rnn.reset_parameters()
        nn.init.zeros_(self.initial_hidden)
        nn.init.zeros_(self.initial_cell)

    def fold_packed(
        self, x: State, packed: PackedOrder, initial: State, keep_states: bool
    ) -> Chain:
        """By torch's own loop, unless all states are wanted: it keeps only their hidden part."""
        rows = cast(Tensor, x).to(self.initial_hidden.dtype)
        if keep_states or are_transforms_active():
            return fold_steps(self, rows, packed, initial)
        start = cast(tuple[Tensor, Tensor], start_states(initial, rows, packed.by_length.numel()))
        hidden, cell = (part.reshape(1, -1, self.channels) for part in start)
        # Not every CPU has a half-precision LSTM, so autocast stays outside.
        with torch.autocast(rows.device.type, enabled=False):
            _, (hidden, cell) = self.rnn(_pack(rows, packed), (hidden, cell))
        return Chain((hidden.view(start[0].shape), cell.view(start[1].shape)), None)


def _pack(rows: Tensor, packed: PackedOrder) -> PackedSequence:
    """Inner feature axes become further groups, side by side at every step."""
    data = rows.reshape(-1, rows.shape[-1])
    return PackedSequence(data, packed.batch_sizes * (data.shape[0] // rows.shape[0]))
