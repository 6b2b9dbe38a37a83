"""How loops are compiled here: at their first use, for the types they meet, and kept on disk."""

from numba import njit

# Fused multiply-adds are welcome; nothing else about floats is loosened.
_OPTIONS = {"error_model": "numpy", "fastmath": {"contract"}, "cache": True, "nogil": True}

compiled = njit(**_OPTIONS)
on_threads = njit(parallel=True, **_OPTIONS)
in_place = njit(inline="always", **_OPTIONS)
"""Compiled anew wherever it is called, with what is known there."""


@compiled
def share(part, num_parts, count):
    """From where to where one of several parts goes, of `count` things."""
    return part * count // num_parts, (part + 1) * count // num_parts
