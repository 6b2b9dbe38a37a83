"""SMILES in a table become the files of ZINC: what PyG and our `ZINC` read."""

import csv
import gzip
import pickle
import zlib
from pathlib import Path

import torch

from treefold.lab.tasks.realworld.building import (
    Built,
    LeftOut,
    Progress,
    numbers_of_splits,
    require_new,
    write_built,
)
from treefold.lab.tasks.realworld.graphs import SPLITS
from treefold.lab.tasks.realworld.molecules import Molecule, read_molecule
from treefold.lab.tasks.realworld.tasks import ZINC


def build_zinc(table: Path, out: Path, progress: Progress = lambda done, total: None) -> Built:
    """Write the folder `ZINC` into `out` from a CSV file, which may be compressed (.gz).

    It needs a column `smiles`; a column `split` may hold train, val or test, otherwise they are
    dealt at random, 8 of 10 to train. What cannot be used is left out, counted and listed in
    `left_out.csv`.
    """
    folder = out / ZINC.folder
    rows = read_table(table)
    require_new(folder)
    molecules: list[Molecule] = []
    splits: list[str | None] = []
    left_out: list[LeftOut] = []
    for number, (line, row) in enumerate(rows, 1):
        smiles, split = row["smiles"], row.get("split")
        try:
            if split not in (*SPLITS, None):
                raise ValueError(f"is in the split {split!r}; expected train, val or test")
            molecules.append(read_molecule(smiles))
            splits.append(split)
        except ValueError as error:
            left_out.append(LeftOut(f"{table.name}, line {line}", smiles, str(error)))
        progress(number, len(rows))
    if not molecules:
        raise ValueError(f"none of {len(rows):,} molecules can be used; the first: {left_out[0]}")
    numbers = numbers_of_splits(splits)
    files = {}
    for split, chosen in numbers.items():
        entries = [_entry(molecules[number]) for number in chosen]
        # A pickle of molecules and a list of their numbers, as the official ones.
        files[f"raw/{split}.pickle"] = pickle.dumps(entries, protocol=4)
        files[f"raw/{split}.index"] = (",".join(map(str, range(len(entries)))) + "\n").encode()
    sizes = {split: len(chosen) for split, chosen in numbers.items()}
    write_built(folder, files, {"from": table.name, "graphs": sizes}, left_out)
    return Built(ZINC.name, folder, sizes, tuple(left_out))


def read_table(path: Path) -> list[tuple[int, dict[str, str]]]:
    """The rows of a table with a column `smiles`, each with the number of its last line."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give a CSV file with a column smiles")
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            heads = [(head or "").strip().lower() for head in reader.fieldnames or []]
            if "smiles" not in heads:
                given = ", ".join(heads) or "none"
                raise ValueError(f"has the columns {given}; expected one called smiles")
            reader.fieldnames = heads
            cells = (
                {name: (cell or "").strip() for name, cell in row.items() if name} for row in reader
            )
            rows = [(reader.line_num, row) for row in cells]
    except (ValueError, csv.Error, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be used: {error}") from None
    if not rows:
        raise ValueError(f"{path} has no lines below its head; expected a molecule in each")
    return rows


def _entry(molecule: Molecule) -> dict[str, object]:
    return {
        "num_atom": len(molecule.atoms),
        "atom_type": torch.from_numpy(molecule.atoms),
        "bond_type": torch.from_numpy(molecule.bonds),
        "logP_SA_cycle_normalized": torch.tensor([molecule.target], dtype=torch.float32),
    }
