"""Binary-GRU's arithmetic in compiled loops, on as many threads as torch has."""

from functools import cache
from os import getpid

import numba
import numpy as np
import torch
from torch import Tensor

from treefold.kernels import binary_gru
from treefold.kernels.threads import start_threads
from treefold.operators.binary_gru_kernel import NUM_KEPT, NUM_PROJECTIONS, Projections

MIN_NUMBERS = 1 << 14
"""How many numbers of a run's outcome are worth another thread."""


class Compiled:
    """What `InTorch` does, in one pass over memory; for float32 on CPUs."""

    def prepare(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The weights as they are; the biases of reset, update, new and hidden new."""
        sides = bias.view(2, NUM_PROJECTIONS // 2, -1)
        both = sides.sum(0)
        both[2] = sides[0, 2]
        return weight, torch.cat([both, sides[1, 2:]]).view(-1)

    def combine(
        self, projections: Projections, bias: Tensor, rows: Tensor, out: Tensor, kept: Tensor
    ) -> None:
        """Write a ⊕ b into `out`, and what its gradient needs into `kept`."""
        arrays = (
            _flat(projections.source),
            _where(projections, rows),
            bias.numpy(),
            *(rows.numpy(), out.numpy(), _flat(kept)),
        )
        num_parts = _num_parts(out)
        if num_parts == 1:
            binary_gru.combine(*arrays, 0, len(out))
        else:
            binary_gru.combine_in_parts(*arrays, num_parts)

    def combine_backward(
        self,
        grad: Tensor,
        rows: Tensor,
        kept: Tensor,
        grad_rows: Tensor,
        grad_projections: Projections,
        grad_bias: Tensor,
    ) -> None:
        """Add to `grad_rows` and `grad_bias`; write `grad_projections`, or add to them."""
        arrays = (
            *(grad.numpy(), rows.numpy(), _flat(kept), grad_rows.numpy()),
            _flat(grad_projections.source),
            _where(grad_projections, rows),
        )
        adds = grad_projections.where is not None
        num_parts = 1 if adds else _num_parts(grad)  # threads must not add to the same rows
        if num_parts == 1:
            binary_gru.combine_backward(*arrays, adds, grad_bias.numpy(), 0, len(grad))
        else:
            binary_gru.combine_backward_in_parts(*arrays, grad_bias.numpy(), num_parts)

    def bias_room(self, bias: Tensor) -> Tensor:
        """Zeros to which gradients of reset, update, new and hidden new are added."""
        return bias.new_zeros(NUM_KEPT * bias.numel() // NUM_PROJECTIONS)

    def bias_gradient(self, found: Tensor) -> Tensor:
        """The gradient of the biases, from what was found for each kind."""
        reset, update, new, hidden_new = found.chunk(NUM_KEPT)
        return torch.cat([reset, update, new, reset, update, hidden_new])


def _flat(tensor: Tensor) -> np.ndarray:
    return tensor.view(*tensor.shape[:2], -1).numpy()


def _where(projections: Projections, rows: Tensor) -> np.ndarray:
    return np.arange(len(rows)) if projections.where is None else projections.where.numpy()


def _num_parts(out: Tensor) -> int:
    """How many threads are worth it; they are set up to run."""
    worth = min(torch.get_num_threads(), out.numel() // MIN_NUMBERS)
    if worth < 2 or _process_with_threads() != getpid():
        return 1
    num_parts: int = min(worth, numba.config.NUMBA_NUM_THREADS)
    numba.set_num_threads(num_parts)
    return num_parts


@cache
def _process_with_threads() -> int | None:
    """The process in which several threads may be used; None if they are not safe anywhere.

    Those of OpenMP and TBB are, until the process forks; numba's own must not be started from
    two threads at once.
    """
    return getpid() if start_threads() in ("omp", "tbb") else None
