"""Official files as arrays: ZINC's pickles, OGB's tables and PyG's tensors, read as data only."""

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from treefold.lab.tasks.cache import Arrays
from treefold.lab.tasks.realworld.graphs import SPLITS, GraphStore, RawGraph, graph_arrays, stacked
from treefold.lab.tasks.realworld.plain_pickle import PickledTensor, RefusedFile, load_plain

_ATOMS = ("atom_type", "bond_type", "logP_SA_cycle_normalized")


def zinc_files(subset: bool) -> tuple[str, ...]:
    """The files that are read, relative to the data set's folder."""
    endings = ("pickle", "index") if subset else ("pickle",)
    return tuple(f"raw/{split}.{ending}" for split in SPLITS for ending in endings)


def read_zinc(folder: Path, subset: bool) -> dict[str, Arrays]:
    """Atom types, bond types and targets of each split; with `subset`, of the 12,000 molecules."""
    return {split: _read_split(folder / "raw", split, subset) for split in SPLITS}


def _read_split(raw: Path, split: str, subset: bool) -> Arrays:
    path = raw / f"{split}.pickle"
    with path.open("rb") as file:
        molecules = load_plain(file, path)
    if not isinstance(molecules, list):
        raise RefusedFile(f"{path} holds a {type(molecules).__name__}; expected a list")
    if subset:
        chosen = _read_index(raw / f"{split}.index", len(molecules))
        molecules = [molecules[number] for number in chosen]
    try:
        return stacked(map(_molecule, molecules), np.float32)
    except ValueError as error:
        raise RefusedFile(f"{path} cannot be used: {error}") from error


def _read_index(path: Path, num_molecules: int) -> list[int]:
    try:
        numbers = [int(number) for number in path.read_text().strip().strip(",").split(",")]
    except ValueError as error:
        raise RefusedFile(f"{path} is not a list of numbers with commas: {error}") from None
    if not 0 <= min(numbers) <= max(numbers) < num_molecules:
        raise RefusedFile(
            f"{path} names molecule {max(numbers)}, and its pickle has {num_molecules}; "
            "the two do not belong together"
        )
    return numbers


def _molecule(entry: Any) -> RawGraph:
    if not isinstance(entry, dict) or any(
        not isinstance(entry.get(part), PickledTensor) for part in _ATOMS
    ):
        raise ValueError(f"a molecule is {str(entry)[:60]}; expected tensors {', '.join(_ATOMS)}")
    atoms, bonds, y = (entry[part].array() for part in _ATOMS)
    edge_index = np.stack(bonds.nonzero())
    return RawGraph(
        x=atoms.astype(np.int16).reshape(-1, 1),
        edge_index=edge_index,
        edge_attr=bonds[tuple(edge_index)].astype(np.int16).reshape(-1, 1),
        y=float(y.reshape(())),
    )


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
    """Each bond is in the files once; here it has both directions."""
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


_OF_IMAGE = ("x", "pos", "edge_index", "edge_attr", "y")


def read_superpixels(path: Path) -> dict[str, Arrays]:
    """Intensities and centres, edges with weights, and the class of each image, of each split."""
    try:
        lists = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise nearly anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RefusedFile(
            f"{path} is refused ({reason}); expected lists of tensors and nothing else, the whole "
            "file: fetch it again"
        ) from error
    if not isinstance(lists, list | tuple) or len(lists) != len(SPLITS):
        raise RefusedFile(f"{path} does not hold three lists of graphs, for train, val and test")
    try:
        return {
            split: stacked((_image(entry) for entry in entries), np.int64)
            for split, entries in zip(SPLITS, lists, strict=True)
        }
    except ValueError as error:
        raise RefusedFile(f"{path} cannot be used: {error}") from error


def _image(entry: Any) -> RawGraph:
    if not isinstance(entry, Mapping) or not set(_OF_IMAGE) <= set(entry):
        raise ValueError(f"an image is {str(entry)[:60]}; expected tensors {', '.join(_OF_IMAGE)}")
    x, pos, edge_attr = (np.asarray(entry[part], np.float32) for part in ("x", "pos", "edge_attr"))
    return RawGraph(
        x=np.concatenate([x.reshape(len(pos), -1), pos], 1),
        edge_index=np.asarray(entry["edge_index"]),
        edge_attr=edge_attr.reshape(-1, 1),
        y=int(entry["y"]),
    )
