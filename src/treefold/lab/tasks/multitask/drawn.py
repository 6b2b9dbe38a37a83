"""Drawn graphs with every label, in the arrays that are cached on the disk."""

from dataclasses import dataclass, fields

import numpy as np
import torch

from treefold.lab.tasks.multitask.generation import DrawnGraph, GraphStream
from treefold.lab.tasks.multitask.labels import Labels, label
from treefold.shapes import Float, Int


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
