"""The most memory that tensors hold at once while something runs."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from treefold.operators import release


class AliveBytes(TorchDispatchMode):
    """Inside, counts the bytes of all tensors that were touched and are still there.

    What operators need for a moment inside of their own code is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._alive: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the operation and look at what went in and came out."""
        out = func(*args, **(kwargs or {}))
        for value in tree_iter((args, kwargs, out)):
            if isinstance(value, Tensor):
                self._see(value.untyped_storage())
        return out

    def _see(self, storage: torch.UntypedStorage) -> None:
        number, size = storage._cdata, storage.nbytes()
        if number in self._alive:
            return

        def gone(_: Any) -> None:
            self.now -= size
            self._alive.pop(number, None)

        self._alive[number] = weakref.ref(storage, gone)
        self.now += size
        self.peak = max(self.peak, self.now)


class Peak:
    """The most bytes alive at once, in the end."""

    num_bytes: int = 0


@contextmanager
def peak_memory(device: torch.device) -> Iterator[Peak]:
    """Inside, the peak is measured: by the allocator on a GPU, by looking at tensors elsewhere."""
    peak = Peak()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield peak
        peak.num_bytes = torch.cuda.max_memory_allocated(device)
        return
    release()  # blocks that an earlier fold left idle may be larger than this one needs
    with AliveBytes() as alive:
        yield peak
    peak.num_bytes = alive.peak
