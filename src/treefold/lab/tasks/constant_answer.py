"""The accuracy of the best constant answer: what a network reaches that ignores its input."""

from collections.abc import Mapping
from math import comb
from typing import Any

import numpy as np


def best_constant(task: Mapping[str, Any], size: int) -> float | None:
    """The accuracy at sets of `size` uniform integers; None where the task has no formula here."""
    try:
        match task.get("name"):
            case "second-minimum":
                options = {name: task[name] for name in ("bits", "k", "saturate") if name in task}
                return max(kth_minimum(size, **options))
            case "count-modulo":
                m = int(task.get("m", 5))
                ways = (sum(comb(size, odd) for odd in range(r, size + 1, m)) for r in range(m))
                return float(max(ways) / 2**size)
            case "parity" | "xor" as name:
                return 0.5 if name == "parity" else float(2.0 ** -int(task.get("bits", 8)))
    except (TypeError, ValueError, ArithmeticError):  # options that no task has
        return None
    return None


def kth_minimum(size: int, bits: int = 8, k: int = 2, saturate: bool = True) -> list[float]:
    """The distribution of the k-th smallest of `size` uniform integers, counting repetitions.

    Sets of fewer than k have it at the largest integer, or with `saturate=False` at their own.
    """
    if not (1 <= bits <= 16 and k >= 1 and size >= 1):
        raise ValueError(f"no {k}-th minimum of {size} integers of {bits} bits; expected 1 to 16")
    if size < k and saturate:
        return [0.0] * ((1 << bits) - 1) + [1.0]
    below = np.arange((1 << bits) + 1) / (1 << bits)
    # It is at least v exactly when fewer than k integers lie below v.
    terms = (comb(size, n) * below**n * (1 - below) ** (size - n) for n in range(min(k, size)))
    return [float(share) for share in -np.diff(sum(terms))]
