"""Folders of data sets: a folder that is given, never the network."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from treefold.lab.tasks.cache import cache_folder

RECEIPT = "treefold-receipt.json"
"""A file in a data set's folder: the address and SHA-256 of its files, and if all are there."""


class MissingData(ValueError):
    """A data set is not in the folder where it was looked for."""


def data_folder(folder: Path | str | None = None) -> Path:
    """The folder given, or else that of the variable TREEFOLD_DATA, or else `data` in the cache."""
    chosen = folder or os.environ.get("TREEFOLD_DATA") or cache_folder() / "data"
    return Path(chosen).expanduser()


def read_receipt(folder: Path) -> dict[str, Any] | None:
    """The receipt of a folder: `url`, `sha256`, `files`, `finished`; None without one."""
    try:
        receipt = json.loads((folder / RECEIPT).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    known = isinstance(receipt, dict) and {"url", "sha256", "files", "finished"} <= receipt.keys()
    return receipt if known else None


def require_files(name: str, folder: Path, files: Iterable[str]) -> None:
    """Raise a `MissingData` with the remedy, if one of the files is not there."""
    receipt = read_receipt(folder)
    if receipt and not receipt["finished"]:
        raise MissingData(
            f"the data set {name} in {folder} was not fetched completely; resume with "
            f"`treefold data fetch {name}`"
        )
    missing = [file for file in files if not (folder / file).is_file()]
    if missing:
        others = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise MissingData(
            f"the data set {name} is not in {folder}: {missing[0]}{others} not found. Download it "
            f"with `treefold data fetch {name}`, or name the folder above {folder.name} with "
            "--data or the variable TREEFOLD_DATA"
        )


def fingerprint(folder: Path, files: Iterable[str]) -> str:
    """A name for what the files are now: another one when a file is replaced or written to."""
    states = [(folder / file).stat() for file in files]
    facts = [str(folder.resolve()), [(state.st_size, state.st_mtime_ns) for state in states]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
