"""Memory that folds use again and again, instead of asking the system for it each time.

On CPUs, fresh memory is paid for at its first touch, page by page, and large blocks go back to the
system as soon as they are freed. A fold needs blocks of the same sizes step after step, so a few of
them are kept. Devices with a caching allocator need none of this and get plain tensors.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from treefold.operators.engine.folding import release_memory

MAX_BYTES = 1 << 28
"""How much memory may be kept while nobody uses it; and more, until `release`, as long as all
together is not more than has been in use at once. What was used last is kept first.
"""


@dataclass
class _Use:
    """Bytes that are leased, and the most that have been."""

    now: int = 0
    most: int = 0

    def change(self, num_bytes: int) -> None:
        self.now += num_bytes
        self.most = max(self.most, self.now)


_idle: list[Tensor] = []
_use = _Use()
_lock = threading.RLock()  # a lease may end, by garbage collection, while another begins


class Lease:
    """A block of memory as a tensor of some shape; it can be used again once the lease is gone.

    Nothing that outlives the lease may share the tensor's memory.
    """

    def __init__(self, shape: Sequence[int], like: Tensor) -> None:
        self._block = _take(prod(shape), like) if like.is_cpu else None
        if self._block is None:
            self.tensor = like.new_empty(shape)
        else:
            self.tensor = self._block[: prod(shape)].view(shape)

    def __del__(self) -> None:
        block = getattr(self, "_block", None)
        if block is None:
            return
        with _lock:
            _use.change(-block.nbytes)
            _idle.append(block)  # and no more: somebody may be choosing from these


def frees_saved_tensors() -> bool:
    """Inside a backward pass: whether autograd lets go of what it has saved when it is done.

    It does so unless it is asked to `retain_graph`. A function that keeps leases itself must let go
    of them then, or a loss that somebody holds would hold them too.
    """
    is_kept = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
    return not is_kept()


def release() -> None:
    """Give the memory that nobody uses back to the system."""
    with _lock:
        _idle.clear()
        _use.most = _use.now
    release_memory()


def _take(count: int, like: Tensor) -> Tensor:
    """The smallest idle block that is large enough and not wastefully larger, or a new one."""
    with _lock:
        fitting = [
            (block.numel(), place)
            for place, block in enumerate(_idle)
            if block.dtype == like.dtype and count <= block.numel() <= 2 * count
        ]
        if fitting:
            block = _idle.pop(min(fitting)[1])
        else:
            block = torch.empty(count + count // 8, dtype=like.dtype)
        _use.change(block.nbytes)
        while sum(each.nbytes for each in _idle) > max(MAX_BYTES, _use.most - _use.now):
            del _idle[0]
    return block
