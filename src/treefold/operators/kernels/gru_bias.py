"""A GRU's biases as compiled loops want them: one per kind, not one per side.

A side's are reset, update, new. By kind they are reset and update, of both sides together, new, and
hidden new.
"""

import numpy as np

from treefold.operators.kernels.compiling import compiled
from treefold.operators.kernels.gru_cell import add, copy


@compiled
def bias_of_kinds(bias_ih, bias_hh):
    """From both sides' to those by kind."""
    n = bias_ih.size // 3
    by_kind = np.concatenate((bias_ih, bias_hh[2 * n :]))
    add(bias_hh[: 2 * n], by_kind[: 2 * n])
    return by_kind


@compiled
def bias_gradient(by_kind, out):
    """Write a gradient by kind as that of both sides' biases, `[2, 3 channels]`."""
    n = by_kind.size // 4
    copy(by_kind[: 3 * n], out[0])
    copy(by_kind[: 2 * n], out[1, : 2 * n])
    copy(by_kind[3 * n :], out[1, 2 * n :])
