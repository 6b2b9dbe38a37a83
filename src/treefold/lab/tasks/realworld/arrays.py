"""Graphs read one by one become the few arrays of a `GraphStore`."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from treefold.lab.tasks.cache import Arrays

LARGEST_GRAPH = np.iinfo(np.int16).max


class RawGraph(NamedTuple):
    """One graph as a file has it, nodes numbered from 0."""

    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray
    y: float | int


def stacked(graphs: Iterable[RawGraph], y_type: type[np.generic]) -> Arrays:
    """The arrays of graphs in this order."""
    rows = list(graphs)
    if not rows:
        raise ValueError("there are no graphs; expected at least one")
    x, edge_index, edge_attr, y = zip(*rows, strict=True)
    return graph_arrays(
        x=np.concatenate(x),
        edge_index=np.concatenate(edge_index, 1),
        edge_attr=np.concatenate(edge_attr),
        y=np.array(y, y_type),
        sizes=np.array([len(each) for each in x], np.int64),
        num_edges=np.array([each.shape[1] for each in edge_index], np.int64),
    )


def graph_arrays(**arrays: np.ndarray) -> Arrays:
    """The arrays of a `GraphStore`, checked, edges sorted by the node they point to.

    `edge_index` numbers nodes within each graph.
    """
    _check_lengths(arrays)
    sizes, num_edges, edge_index = arrays["sizes"], arrays["num_edges"], arrays["edge_index"]
    if int(sizes.max(initial=0)) > LARGEST_GRAPH:
        raise ValueError(f"a graph has {sizes.max()} nodes; expected at most {LARGEST_GRAPH}")
    if (edge_index < 0).any() or (edge_index >= np.repeat(sizes, num_edges)).any():
        raise ValueError("an edge names a node that its graph does not have")
    first = np.repeat(np.cumsum(sizes) - sizes, num_edges)
    order = np.argsort(edge_index[1] + first, kind="stable")
    return arrays | {
        "edge_index": np.ascontiguousarray(edge_index[:, order], np.int16),
        "edge_attr": np.ascontiguousarray(arrays["edge_attr"][order]),
    }


def _check_lengths(arrays: Arrays) -> None:
    expected = {
        "x": int(arrays["sizes"].sum()),
        "edge_attr": int(arrays["num_edges"].sum()),
        "y": len(arrays["sizes"]),
        "num_edges": len(arrays["sizes"]),
    }
    found = {name: len(arrays[name]) for name in expected}
    found["edges"], expected["edges"] = arrays["edge_index"].shape[1], expected["edge_attr"]
    for name, length in expected.items():
        if found[name] != length:
            raise ValueError(
                f"{name} has {found[name]} entries, expected {length}; the files do not belong "
                "together, or one is not whole: fetch them again"
            )
