"""The ten random families of graphs, in the order and proportions in which they are mixed."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.random import RandomState

TRIES = 10_000
EXPONENT = 3.0


class Seeded(NamedTuple):
    """The random numbers of one attempt: its seed, and Python's and NumPy's streams from it."""

    seed: int
    python: Random
    numpy: RandomState

    @classmethod
    def from_seed(cls, seed: int) -> "Seeded":
        """Both streams at their beginning."""
        return cls(seed, Random(seed), RandomState(seed))


@dataclass(frozen=True)
class GraphFamily:
    """A family of graphs: its share of the mixture, and how one with n nodes is made."""

    name: str
    share: float
    build: Callable[[int, Seeded], nx.Graph]


def _erdos_renyi(n: int, seeded: Seeded) -> nx.Graph:
    # networkx starts a stream of its own from the same seed, so its first number is this very
    # probability, and its first gap, log(1 - u) / log(1 - p) rounded down, hangs on the last bit.
    # PNA's script has p = (u * n) / n: that draws 46 of the 5,120 training graphs differently.
    return nx.fast_gnp_random_graph(n, seeded.python.random(), seed=seeded.seed)


def _barabasi_albert(n: int, seeded: Seeded) -> nx.Graph:
    num_edges = int(seeded.python.random() * (n - 1)) + 1
    return nx.barabasi_albert_graph(n, num_edges, seed=seeded.seed)


def _grid(n: int, seeded: Seeded) -> nx.Graph:
    rows = _largest_divisor_up_to_the_root(n)
    return nx.grid_2d_graph(rows, n // rows)


def _caveman(n: int, seeded: Seeded) -> nx.Graph:
    caves = _largest_divisor_up_to_the_root(n)
    return nx.caveman_graph(caves, n // caves)


def _tree(n: int, seeded: Seeded) -> nx.Graph:
    return power_law_tree(n, seeded.seed)


def _ladder(n: int, seeded: Seeded) -> nx.Graph:
    graph = nx.ladder_graph(n // 2)
    if n % 2:
        graph.add_edge(0, n - 1)
    return graph


def _line(n: int, seeded: Seeded) -> nx.Graph:
    return nx.path_graph(n)


def _star(n: int, seeded: Seeded) -> nx.Graph:
    return nx.star_graph(n - 1)


def _caterpillar(n: int, seeded: Seeded) -> nx.Graph:
    seeded.numpy.seed(seeded.seed)
    backbone = seeded.numpy.randint(1, n)
    graph = nx.path_graph(backbone)
    graph.add_edges_from((leaf, seeded.numpy.randint(backbone)) for leaf in range(backbone, n))
    return graph


def _lobster(n: int, seeded: Seeded) -> nx.Graph:
    seeded.numpy.seed(seeded.seed)
    backbone = seeded.numpy.randint(1, n)
    arms = seeded.numpy.randint(backbone + 1, n + 1)
    graph = nx.path_graph(backbone)
    graph.add_edges_from((node, seeded.numpy.randint(backbone)) for node in range(backbone, arms))
    graph.add_edges_from((node, seeded.numpy.randint(backbone, arms)) for node in range(arms, n))
    return graph


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


FAMILIES = (
    GraphFamily("erdos-renyi", 0.20, _erdos_renyi),
    GraphFamily("barabasi-albert", 0.20, _barabasi_albert),
    GraphFamily("grid", 0.05, _grid),
    GraphFamily("caveman", 0.05, _caveman),
    GraphFamily("tree", 0.15, _tree),
    GraphFamily("ladder", 0.05, _ladder),
    GraphFamily("line", 0.05, _line),
    GraphFamily("star", 0.05, _star),
    GraphFamily("caterpillar", 0.10, _caterpillar),
    GraphFamily("lobster", 0.10, _lobster),
)
"""All of them; the order decides which random number draws which."""

_SHARES = np.array([family.share for family in FAMILIES])


def draw_family(stream: RandomState) -> int:
    """The number of a family in `FAMILIES`, drawn by its share."""
    return int(stream.choice(len(FAMILIES), p=_SHARES))


def _largest_divisor_up_to_the_root(n: int) -> int:
    return next(divisor for divisor in range(math.isqrt(n), 0, -1) if n % divisor == 0)
