"""Communication between processes: rows gathered from all of them, and gradients sent back."""

from typing import Any
from zlib import crc32

import torch
import torch.distributed as dist
from torch import Tensor

# Older versions of torch have these under the second name only; newer ones deprecate it.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class Exchange:
    """The processes that fold together; a world of one if torch.distributed is not in use."""

    def __init__(self, process_group: dist.ProcessGroup | None = None) -> None:
        self.process_group = process_group
        self.is_alone = not (dist.is_available() and dist.is_initialized())
        self.size = 1 if self.is_alone else dist.get_world_size(process_group)
        self.rank = 0 if self.is_alone else dist.get_rank(process_group)
        if self.rank < 0:
            raise ValueError(
                "this process is not in the process group; call from its members alone"
            )

    def agree(self, what: str, device: torch.device) -> None:
        """Raise a ValueError in every process unless all of them give the same text."""
        codes = self.gather(torch.tensor([crc32(what.encode())], device=device))
        if bool((codes == codes[0]).all()):
            return
        given: list[Any] = [None] * self.size
        dist.all_gather_object(given, what, group=self.process_group)
        listed = "; ".join(f"rank {rank} has {text}" for rank, text in enumerate(given))
        raise ValueError(f"the processes do not fit together: {listed}")

    def any(self, flag: bool, device: torch.device) -> bool:
        """Return True if `flag` is True in any process."""
        return bool(self.gather(torch.tensor([int(flag)], device=device)).any())

    def gather(self, rows: Tensor) -> Tensor:
        """Gather the rows of all processes, as many from each, in the order of ranks."""
        if self.is_alone:
            return rows
        out = rows.new_empty(self.size * rows.shape[0], *rows.shape[1:])
        _all_gather(out, rows.contiguous(), group=self.process_group)
        return out

    def gather_uneven(self, rows: Tensor, counts: tuple[int, ...], needs_grad: bool) -> Tensor:
        """Gather `counts[rank]` rows of each process; with `needs_grad`, differentiable.

        Gradients are those of the sum of all processes' losses, and all of them must ask for
        gradients together. `needs_grad` is the same in all of them.
        """
        if self.is_alone:
            return rows
        most = max(counts)
        padding = rows.new_zeros(most - rows.shape[0], *rows.shape[1:])
        padded = torch.cat([rows, padding])
        if needs_grad and not padded.requires_grad:
            padded.requires_grad_()  # others wait for this process in their backward pass
        gathered: Tensor = _Gather.apply(padded, self)  # type: ignore[no-untyped-call]
        return torch.cat(
            [gathered[rank * most : rank * most + count] for rank, count in enumerate(counts)]
        )


class _Gather(torch.autograd.Function):
    """All processes' rows; the gradient of each process's rows, summed over processes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange = exchange
        return exchange.gather(rows)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (grad,), exchange = grads, ctx.exchange
        mine = grad.new_empty(grad.shape[0] // exchange.size, *grad.shape[1:])
        _reduce_scatter(mine, grad.contiguous(), group=exchange.process_group)
        return mine, None
