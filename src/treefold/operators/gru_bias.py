"""A GRU's biases as compiled loops want them: one per kind, not one per side.

Stacked, they are reset, update, new of the input side, then of the hidden side. By kind they are
reset and update, of both sides together, new, and hidden new.
"""

import numpy as np


def bias_of_kinds(bias: np.ndarray) -> np.ndarray:
    """From stacked to by kind."""
    sides = bias.reshape(2, 3, -1)
    return np.concatenate([*sides[:, :2].sum(0), sides[0, 2], sides[1, 2]])


def bias_gradient(by_kind: np.ndarray) -> np.ndarray:
    """From a gradient by kind to that of the stacked biases."""
    reset, update, new, hidden_new = by_kind.reshape(4, -1)
    return np.concatenate([reset, update, new, reset, update, hidden_new])
