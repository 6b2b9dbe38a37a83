"""Random graphs one after the other, with every label, in the arrays that are cached."""

from dataclasses import dataclass, fields

import networkx as nx
import numpy as np
import torch

from treefold.lab.tasks.multitask.families import FAMILIES, Seeded, draw_family
from treefold.lab.tasks.multitask.labels import Labels, label
from treefold.shapes import Bool, Float, Int

KEEP = 0.9


@dataclass(frozen=True, eq=False)
class DrawnGraph:
    """A graph without isolated nodes, a number on each node, and the node paths start from."""

    family: int
    adjacency: Bool[np.ndarray, " n n"]
    values: Float[np.ndarray, " n"]
    source: int


class GraphStream:
    """Graphs drawn with the seeds after `counter`, one seed for each attempt.

    An attempt with an isolated node is rejected and tried again in the same family with the next
    seed. Where the next graph starts therefore depends on all graphs before it.
    """

    def __init__(self, counter: int) -> None:
        self.counter = counter
        self.rejected = 0

    def draw(self, n: int) -> DrawnGraph:
        """The next graph, with n nodes."""
        if n < 3:  # of two nodes, the Erdős–Rényi generator never joins its first pair
            raise ValueError(f"a graph of {n} nodes; expected 3 or more, for every family to exist")
        seeded = self._next_seed()
        family = draw_family(seeded.numpy)
        while True:
            adjacency, values = _attempt(family, n, seeded)
            if adjacency.any(1).all():
                return DrawnGraph(family, adjacency, values, int(seeded.numpy.randint(n)))
            self.rejected += 1
            seeded = self._next_seed()

    def _next_seed(self) -> Seeded:
        self.counter += 1
        return Seeded.from_seed(self.counter)


def _attempt(
    family: int, n: int, seeded: Seeded
) -> tuple[Bool[np.ndarray, " n n"], Float[np.ndarray, " n"]]:
    """A graph of a family, its nodes shuffled and its edges perturbed; and numbers for its nodes.

    The order of these lines is the order in which the streams are used.
    """
    graph = FAMILIES[family].build(n, seeded)
    nodes = list(graph)
    seeded.python.shuffle(nodes)
    values = seeded.numpy.uniform(0.0, 1.0, n)
    noise = seeded.numpy.uniform(0.0, 0.5, (n, n))
    return perturb(nx.to_numpy_array(graph, nodes, dtype=bool), noise), values


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
    """The thresholds below which an edge stays, and below which a missing edge comes."""
    n = len(adjacency)
    edges = adjacency.sum() / 2
    missing = n * (n - 1) / 2 - edges
    if edges > missing:
        return KEEP + (1 - KEEP) * (edges - missing) / edges, 1 - KEEP
    return KEEP, (1 - KEEP) * edges / missing if missing else 0.0


@dataclass(frozen=True, eq=False)
class DrawnGraphs:
    """Graphs one after the other, labels in double and not normalised.

    Both meanings of "connected" follow from two of the columns: all variants of the task share one
    file.
    """

    sizes: Int[np.ndarray, " graphs"]
    families: Int[np.ndarray, " graphs"]
    sources: Int[np.ndarray, " graphs"]
    num_edges: Int[np.ndarray, " graphs"]
    edges: Int[np.ndarray, " pairs 2"]
    """Each edge once, by node numbers within its graph, the smaller first."""
    values: Float[np.ndarray, " nodes"]
    node_labels: Float[np.ndarray, " nodes 3"]
    """Distance from the source, eccentricity, Laplacian features."""
    graph_labels: Float[np.ndarray, " graphs 4"]
    """Connected, bipartite, diameter, spectral radius."""
    counter: Int[np.ndarray, ""]
    """The seed of the last graph: the next split continues from here."""
    rejected: Int[np.ndarray, ""]
    """The number of attempts with an isolated node."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


def draw_graphs(sizes: tuple[int, ...], graphs_per_size: int, counter: int) -> DrawnGraphs:
    """Draw and label so many graphs of each size, with the seeds after `counter`."""
    stream = GraphStream(counter)
    batches = []
    for n in sizes:
        drawn = [stream.draw(n) for _ in range(graphs_per_size)]
        batches.append(_batch_of_one_size(drawn))
    joined = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    return DrawnGraphs(
        **joined, counter=np.array(stream.counter), rejected=np.array(stream.rejected)
    )


def _batch_of_one_size(drawn: list[DrawnGraph]) -> dict[str, np.ndarray]:
    adjacency = np.stack([graph.adjacency for graph in drawn])
    values = np.stack([graph.values for graph in drawn])
    sources = np.array([graph.source for graph in drawn])
    labels = label(*map(torch.from_numpy, (adjacency, values, sources)))
    graph, start, end = np.triu(adjacency).nonzero()
    return {
        "sizes": np.full(len(drawn), values.shape[1], np.int16),
        "families": np.array([graph.family for graph in drawn], np.int16),
        "sources": sources.astype(np.int16),
        "num_edges": np.bincount(graph, minlength=len(drawn)).astype(np.int32),
        "edges": np.stack([start, end], 1).astype(np.int16),
        "values": values.reshape(-1),
        **_label_columns(labels),
    }


def _label_columns(labels: Labels) -> dict[str, np.ndarray]:
    of_nodes = (labels.distance, labels.eccentricity, labels.laplacian)
    of_graphs = (labels.connected, labels.bipartite, labels.diameter, labels.spectral_radius)
    return {
        "node_labels": torch.stack(of_nodes, -1).flatten(0, 1).numpy(),
        "graph_labels": torch.stack([column.double() for column in of_graphs], -1).numpy(),
    }
