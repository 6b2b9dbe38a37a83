"""Random trees with degrees from a power law: networkx's, bit for bit, but sooner."""

from random import Random

import networkx as nx

TRIES = 10_000
EXPONENT = 3.0


def power_law_tree(n: int, seed: int) -> nx.Graph:
    """The graph of `nx.random_powerlaw_tree(n, EXPONENT, seed, TRIES)`, several times sooner.

    Degrees are drawn, then replaced one by one until they are those of a tree. networkx first
    turns all `TRIES` spare random numbers into degrees; here, only those that are needed.
    """
    stream = Random(seed)
    degrees = [_degree(stream.random(), n) for _ in range(n)]
    spare = [stream.random() for _ in range(TRIES)]
    # networkx loops over the list that it takes from, so half of it is what can be used.
    for _ in range(TRIES // 2):
        if sum(degrees) == 2 * (n - 1):
            return nx.degree_sequence_tree(degrees)
        degrees[stream.randint(0, n - 1)] = _degree(spare.pop(), n)
    raise ValueError(f"seed {seed} gives no tree of {n} nodes; use another seed")


def _degree(uniform: float, n: int) -> int:
    """A number from U[0, 1) as a degree, as `Random.paretovariate` and rounding make it."""
    pareto: float = (1.0 - uniform) ** (-1.0 / (EXPONENT - 1.0))
    return min(n, round(pareto))
