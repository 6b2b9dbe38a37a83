"""A data set of OGB: csv.gz files of numbers, with lists of the graphs of each split."""

import gzip
import zlib
from pathlib import Path

import numpy as np
import torch

from treefold.lab.tasks.cache import Arrays
from treefold.lab.tasks.realworld.arrays import graph_arrays
from treefold.lab.tasks.realworld.graphs import GraphStore
from treefold.lab.tasks.realworld.plain_pickle import RefusedFile

_SPLITS = {"train": "train", "val": "valid", "test": "test"}
_RAW = ("num-node-list", "num-edge-list", "node-feat", "edge-feat", "edge", "graph-label")

OGB_FILES = (
    *(f"raw/{name}.csv.gz" for name in _RAW),
    *(f"split/scaffold/{name}.csv.gz" for name in _SPLITS.values()),
)
"""The files that are read, relative to the data set's folder."""


def read_ogb(folder: Path) -> dict[str, Arrays]:
    """Categories of nodes and edges, and the 0 or 1 of each graph, of each split."""
    raw = {name: _numbers(folder / "raw" / f"{name}.csv.gz") for name in _RAW}
    try:
        everything = _with_both_directions(raw)
        return {
            split: _chosen(everything, _numbers(folder / "split" / "scaffold" / f"{name}.csv.gz"))
            for split, name in _SPLITS.items()
        }
    except ValueError as error:
        raise RefusedFile(f"{folder} cannot be used: {error}") from error


def _numbers(path: Path) -> np.ndarray:
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            lines = file.read().splitlines()
        if not lines:
            raise ValueError("it is empty")
        return np.loadtxt(lines, dtype=np.int64, delimiter=",", ndmin=2)
    except (EOFError, OSError, zlib.error, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise RefusedFile(
            f"{path} cannot be read ({error}); expected compressed lines of whole numbers: fetch "
            "it again"
        ) from error


def _with_both_directions(raw: Arrays) -> Arrays:
    """Each bond stands in the files once; here it goes there and back."""
    num_edges = raw["num-edge-list"][:, 0]
    if len(raw["edge"]) != len(raw["edge-feat"]) or num_edges.sum() != len(raw["edge"]):
        raise ValueError(
            f"{len(raw['edge'])} edges, {len(raw['edge-feat'])} rows of features and "
            f"{num_edges.sum()} edges of graphs; expected as many of each"
        )
    edges = raw["edge"].repeat(2, 0)
    edges[1::2] = edges[1::2, ::-1]
    return graph_arrays(
        x=raw["node-feat"].astype(np.int16),
        edge_index=edges.T,
        edge_attr=raw["edge-feat"].astype(np.int16).repeat(2, 0),
        y=raw["graph-label"][:, 0].astype(np.float32),
        sizes=raw["num-node-list"][:, 0],
        num_edges=2 * num_edges,
    )


def _chosen(arrays: Arrays, numbers: np.ndarray) -> Arrays:
    graphs = numbers[:, 0]
    if graphs.min() < 0 or graphs.max() >= len(arrays["y"]):
        raise ValueError(f"a split names graph {graphs.max()} of {len(arrays['y'])}")
    return GraphStore.from_arrays(arrays).only(torch.from_numpy(graphs)).arrays()
