"""Which threads compiled loops run on."""

from numba import njit, prange, threading_layer


@njit(parallel=True, cache=True)
def _count(n):
    total = 0
    for _ in prange(n):
        total += 1
    return total


def start_threads() -> str:
    """Start them, and say whose they are: `omp`, `tbb` or `workqueue`."""
    _count(2)
    return str(threading_layer())
