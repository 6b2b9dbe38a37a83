"""On how many threads compiled loops may run, here and now."""

from functools import cache
from os import getpid
from threading import local

import numba
import torch

from treefold.operators.kernels.blas import CAN_BE_ALONE
from treefold.operators.kernels.threads import start_threads

_asked_for = local()
"""How many parts each thread asked for last: to ask again takes as long as a small copy."""


def max_parts() -> int:
    """Into how many parts work may be cut, each with a thread; the threads are ready for them."""
    num_threads = torch.get_num_threads()
    if num_threads < 2 or not CAN_BE_ALONE or process_with_threads() != getpid():
        return 1
    num_parts: int = min(num_threads, numba.config.NUMBA_NUM_THREADS)
    if getattr(_asked_for, "num_parts", 0) != num_parts:
        numba.set_num_threads(num_parts)
        _asked_for.num_parts = num_parts
    return num_parts


@cache
def process_with_threads() -> int | None:
    """The process in which several threads may be used; None if they are not safe anywhere.

    Those of OpenMP and TBB are, until the process forks; numba's own must not be started from
    two threads at once.
    """
    return getpid() if start_threads() in ("omp", "tbb") else None


process_with_threads()  # before anything that is compiled for threads starts them
