"""The number of cores this process may use."""

import os


def num_cores() -> int:
    """Count the cores this process may use; all cores where the system has no count."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
