"""Binary-GRU's arithmetic in compiled loops, on as many threads as torch has."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from os import getpid

import numpy as np
import torch
from torch import Tensor

from treefold.kernels import binary_gru
from treefold.operators.binary_gru_kernel import NUM_KEPT, NUM_PROJECTIONS, Projections

MIN_NUMBERS = 1 << 15
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
        _share(
            lambda _, start, stop: binary_gru.combine(*arrays, start, stop), out, _num_parts(out)
        )

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
        adds = grad_projections.where is not None
        num_parts = 1 if adds else _num_parts(grad)  # threads must not add to the same rows
        sums = [grad_bias.numpy()]  # one for each part
        sums += [np.zeros_like(sums[0]) for _ in range(1, num_parts)]
        arrays = (
            *(grad.numpy(), rows.numpy(), _flat(kept), grad_rows.numpy()),
            _flat(grad_projections.source),
            _where(grad_projections, rows),
            adds,
        )
        _share(
            lambda part, start, stop: binary_gru.combine_backward(*arrays, sums[part], start, stop),
            grad,
            num_parts,
        )
        for other in sums[1:]:
            sums[0] += other

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
    return max(1, min(torch.get_num_threads(), out.numel() // MIN_NUMBERS))


def _share(work: Callable[[int, int, int], None], out: Tensor, num_parts: int) -> None:
    """Do `work(part, start, stop)` for all pairs, each part on a thread of its own."""
    cuts = [len(out) * part // num_parts for part in range(num_parts + 1)]
    others = [
        _threads(getpid()).submit(work, part, cuts[part], cuts[part + 1])
        for part in range(1, num_parts)
    ]
    work(0, 0, cuts[1])
    for other in others:
        other.result()


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Threads that wait for work; a process that was forked off needs its own."""
    return ThreadPoolExecutor(torch.get_num_threads(), thread_name_prefix="treefold")
