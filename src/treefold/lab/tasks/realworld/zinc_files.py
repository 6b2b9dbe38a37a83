"""ZINC's folder as PyG has it: a pickle of molecules and a list of the chosen ones per split."""

from pathlib import Path
from typing import Any

import numpy as np

from treefold.lab.tasks.cache import Arrays
from treefold.lab.tasks.realworld.arrays import RawGraph, stacked
from treefold.lab.tasks.realworld.graphs import SPLITS
from treefold.lab.tasks.realworld.plain_pickle import PickledTensor, RefusedFile, load_plain

_PARTS = ("atom_type", "bond_type", "logP_SA_cycle_normalized")


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
        not isinstance(entry.get(part), PickledTensor) for part in _PARTS
    ):
        raise ValueError(f"a molecule is {str(entry)[:60]}; expected tensors {', '.join(_PARTS)}")
    atoms, bonds, y = (entry[part].array() for part in _PARTS)
    edge_index = np.stack(bonds.nonzero())
    return RawGraph(
        x=atoms.astype(np.int16).reshape(-1, 1),
        edge_index=edge_index,
        edge_attr=bonds[tuple(edge_index)].astype(np.int16).reshape(-1, 1),
        y=float(y.reshape(())),
    )
