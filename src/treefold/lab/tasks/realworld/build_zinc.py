"""SMILES in a table become the files of ZINC: what PyG and our `ZINC` read."""

import csv
import gzip
import io
import pickle
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from treefold.lab.tasks.realworld.building import (
    Built,
    LeftOut,
    Progress,
    chosen,
    numbers_of_splits,
    require_new,
    write_built,
)
from treefold.lab.tasks.realworld.graphs import SPLITS
from treefold.lab.tasks.realworld.molecules import Molecule, read_molecule
from treefold.lab.tasks.realworld.tasks import ZINC

SMILES, SPLIT = "smiles", "split"


@dataclass(frozen=True)
class Line:
    """A line of the table that names a molecule."""

    place: str
    smiles: str
    split: str | None


def build_zinc(table: Path, out: Path, progress: Progress = lambda done, total: None) -> Built:
    """Write the folder `ZINC` into `out` from a CSV file, which may be compressed (.gz).

    It needs a column `smiles`; a column `split` may hold train, val or test, otherwise they are
    dealt at random, 8 of 10 to train. What cannot be used is left out, counted and listed in
    `left_out.csv`.
    """
    folder = out / ZINC.folder
    lines = list(read_table(table))
    require_new(folder)
    molecules: list[Molecule] = []
    splits: list[str | None] = []
    left_out: list[LeftOut] = []
    for number, line in enumerate(lines, 1):
        try:
            molecules.append(_molecule(line))
            splits.append(line.split)
        except ValueError as error:
            left_out.append(LeftOut(line.place, line.smiles, str(error)))
        progress(number, len(lines))
    if not molecules:
        raise ValueError(f"none of {len(lines):,} molecules can be used; the first: {left_out[0]}")
    numbers = numbers_of_splits(splits)
    files = _files({split: chosen(molecules, numbers[split]) for split in SPLITS})
    sizes = {split: len(numbers[split]) for split in SPLITS}
    write_built(folder, files, {"from": table.name, "graphs": sizes}, left_out)
    return Built(ZINC.name, folder, sizes, tuple(left_out))


def read_table(path: Path) -> Iterator[Line]:
    """The molecules of a table, with the lines they are in."""
    text = _text(path)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    heads = [(head or "").strip().lower() for head in reader.fieldnames or []]
    if SMILES not in heads:
        raise ValueError(
            f"{path} has the columns {', '.join(heads) or 'none'}; expected one called {SMILES}"
        )
    reader.fieldnames = heads
    found = False
    try:
        for row in reader:
            found = True
            split = (row.get(SPLIT) or "").strip().lower() if SPLIT in heads else None
            place = f"{path.name}, line {reader.line_num}"
            yield Line(place, (row[SMILES] or "").strip(), split)
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from None
    if not found:
        raise ValueError(f"{path} has no lines below its head; expected a molecule in each")


def _text(path: Path) -> str:
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give a CSV file with a column {SMILES}")
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error.reason}); save it as such") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file ({error}); fetch it again") from None


def _molecule(line: Line) -> Molecule:
    if line.split is not None and line.split not in SPLITS:
        raise ValueError(f"is in the split {line.split!r}; expected train, val or test")
    if not line.smiles:
        raise ValueError("has no SMILES")
    return read_molecule(line.smiles)


def _files(splits: dict[str, list[Molecule]]) -> dict[str, bytes]:
    """A pickle of molecules and a list of their numbers for each split, as the official ones."""
    files = {}
    for split, molecules in splits.items():
        entries = [_entry(molecule) for molecule in molecules]
        files[f"raw/{split}.pickle"] = pickle.dumps(entries, protocol=4)
        files[f"raw/{split}.index"] = (",".join(map(str, range(len(entries)))) + "\n").encode()
    return files


def _entry(molecule: Molecule) -> dict[str, object]:
    return {
        "num_atom": len(molecule.atoms),
        "atom_type": torch.from_numpy(molecule.atoms),
        "bond_type": torch.from_numpy(molecule.bonds),
        "logP_SA_cycle_normalized": torch.tensor([molecule.target], dtype=torch.float32),
    }
