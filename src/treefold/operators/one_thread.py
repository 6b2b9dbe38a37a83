"""Work too small to be shared is done by one thread, however many torch has.

Threads that share work wait for the last of them. Beside other busy processes one may have to wait
for a core, for milliseconds each time, which is more than small work takes.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from treefold.operators.kernels.torch_library import address_in_torch

WORTH_SHARING = 1 << 25
"""How many multiply-adds are: those of about a millisecond."""
GATES = 200
"""The gates of one number of state take as long as so many multiply-adds."""


def is_small(num_numbers: int, channels: int) -> bool:
    """Whether a fold of so many numbers, by an operator like Binary-GRU, is not worth sharing."""
    return num_numbers * (12 * channels + GATES) < WORTH_SHARING


@contextmanager
def one_thread(small: bool) -> Iterator[None]:
    """Inside, torch works with this thread alone if the work is `small`.

    Other threads of the process keep their number, which `torch.set_num_threads` would change.
    """
    calls = _calls() if small and torch.get_num_threads() > 1 else None
    if calls is None:
        yield
        return
    set_omp, set_mkl = calls
    before = torch.get_num_threads()
    set_omp(1)
    before_mkl = set_mkl(1)
    try:
        yield
    finally:
        set_mkl(before_mkl)
        set_omp(before)


@cache
def _calls() -> tuple[Callable[[int], Any], Callable[[int], Any]] | None:
    """How OpenMP and MKL are told, for the calling thread; None where torch does not show it."""
    omp = address_in_torch("omp_set_num_threads")
    mkl = address_in_torch("MKL_Set_Num_Threads_Local")
    if omp is None:
        return None
    # Without MKL, multiplications follow OpenMP.
    set_mkl = (lambda _: 0) if mkl is None else ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(mkl)
    return ctypes.CFUNCTYPE(None, ctypes.c_int)(omp), set_mkl
