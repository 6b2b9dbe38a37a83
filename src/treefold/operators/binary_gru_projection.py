"""The multiplications of a Binary-GRU fold: stacked weights times rows, and their gradients."""

from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from treefold.operators.binary_gru_kernel import Projections

Places: TypeAlias = slice | Tensor
"""Where the rows of a run lie in the buffer of all states."""


@runtime_checkable
class Projection(Protocol):
    """Projects the rows of a run, and takes the gradients of those projections back."""

    @property
    def grad_weight(self) -> Tensor:
        """The gradient of the weights so far."""
        ...

    def start(self) -> None:
        """Before the first run forward."""
        ...

    def project(self, rows: Tensor, places: Places) -> Projections:
        """The projections of a run's rows, in a buffer that the next call overwrites."""
        ...

    def start_backward(self) -> None:
        """Before the first run backward."""
        ...

    def room(self, places: Places) -> Projections:
        """Where the gradient of a run's projections goes."""
        ...

    def backward(self, rows: Tensor, grad_rows: Tensor, places: Places) -> None:
        """Take in what was put into the `room`; add to `grad_rows` what belongs there."""
        ...

    def finish(self, grad_x: Tensor) -> None:
        """After the last run backward: complete the gradients of weights and input."""
        ...


class Dense:
    """One multiplication per run; for the gradient of the weights, one per bufferful of runs."""

    def __init__(self, weight: Tensor, buffer: Tensor) -> None:
        self.weight, self.buffer = weight, buffer
        self._ready, self._used = 0, 0
        self._rows: list[Tensor] = []

    @cached_property
    def grad_weight(self) -> Tensor:
        """The gradient of the weights so far."""
        return torch.zeros_like(self.weight, dtype=self.buffer.dtype)

    def start(self) -> None:
        """Nothing to do before the first run."""

    start_backward = start

    def project(self, rows: Tensor, places: Places | None = None) -> Projections:
        """Multiply."""
        out = self.buffer[: rows.shape[0]]
        flat = out.view(-1, self.weight.shape[0])
        if self.weight.dtype == rows.dtype:
            torch.mm(_flat(rows), self.weight.t(), out=flat)
        else:
            flat.copy_(_flat(rows).to(self.weight.dtype) @ self.weight.t())
        return Projections(out, None)

    def room(self, places: Places) -> Projections:
        """The next free rows of the buffer."""
        return Projections(self.take(_num_places(places)), None)

    def take(self, num_rows: int) -> Tensor:
        """The next free rows of the buffer, which is emptied first if it has too few."""
        if self._used + num_rows > self.buffer.shape[0]:
            self.finish()
        self._ready, self._used = self._used, self._used + num_rows
        return self.buffer[self._ready : self._used]

    @property
    def first_taken(self) -> int:
        """Where the rows that were taken last begin."""
        return self._ready

    def backward(self, rows: Tensor, grad_rows: Tensor, places: Places | None = None) -> None:
        """Multiply to the rows; keep them, for the weights, until the buffer is full."""
        flat = self._grad(self._ready)
        if flat.dtype == rows.dtype:
            _flat(grad_rows).addmm_(flat, self.weight)
        else:
            _flat(grad_rows).add_(flat @ self.weight)
        self._rows.append(rows)

    def finish(self, grad_x: Tensor | None = None) -> None:
        """Multiply to the weights."""
        if not self._rows:
            return
        rows = self._rows[0] if len(self._rows) == 1 else torch.cat(self._rows)
        flat = self._grad(0)
        if flat.dtype == rows.dtype:
            self.grad_weight.addmm_(flat.t(), _flat(rows))
        else:
            self.grad_weight.add_(flat.t() @ _flat(rows).to(flat.dtype))
        self._used, self._rows = 0, []

    def _grad(self, start: int) -> Tensor:
        grad = self.buffer[start : self._used].view(-1, self.weight.shape[0])
        return grad.to(self.weight.dtype)


def _flat(rows: Tensor) -> Tensor:
    return rows.view(-1, rows.shape[-1])


def _num_places(places: Places) -> int:
    return len(range(places.start, places.stop)) if isinstance(places, slice) else len(places)
