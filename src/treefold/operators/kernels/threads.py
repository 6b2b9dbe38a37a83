"""Which threads compiled loops run on."""

import torch
from numba import njit, prange, threading_layer


@njit(parallel=True, cache=True)
def _count(n):
    total = 0
    for _ in prange(n):
        total += 1
    return total


def start_threads() -> str:
    """Start them, and say whose they are: `omp`, `tbb` or `workqueue`.

    Torch keeps its number of threads, which numba sets to its own where both use one OpenMP.
    """
    before = torch.get_num_threads()
    _count(2)
    torch.set_num_threads(before)
    return str(threading_layer())
