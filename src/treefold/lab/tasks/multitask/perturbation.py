"""Edge perturbation: a few edges go, about as many come."""

import numpy as np

from treefold.shapes import Bool, Float

KEEP = 0.9


def perturb(
    adjacency: Bool[np.ndarray, " n n"], noise: Float[np.ndarray, " n n"]
) -> Bool[np.ndarray, " n n"]:
    """The graph with some edges removed and some added, as `noise` from U[0, 0.5) decides.

    A pair's number is the sum of its two entries of `noise`: below one threshold an edge stays,
    below another a missing edge comes. PNA means these as probabilities, but the sum is triangular
    on [0, 1): an edge goes with probability 2 (1 - 0.9)² = 0.02, not 0.1. Both our variants do it
    as PNA does.
    """
    keep, add = _thresholds(adjacency)
    of_pair = noise + noise.T
    perturbed: np.ndarray = np.where(adjacency, of_pair < keep, of_pair < add)
    np.fill_diagonal(perturbed, False)
    return perturbed


def _thresholds(adjacency: Bool[np.ndarray, " n n"]) -> tuple[float, float]:
    """What an edge must be below to stay, and a missing edge to come."""
    n = len(adjacency)
    edges = adjacency.sum() / 2
    missing = n * (n - 1) / 2 - edges
    if edges > missing:
        return KEEP + (1 - KEEP) * (edges - missing) / edges, 1 - KEEP
    return KEEP, (1 - KEEP) * edges / missing if missing else 0.0
