"""The number of cores this process may use."""

import os


def num_cores() -> int:
    """How many cores this process may use; those of the machine where nobody can tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
