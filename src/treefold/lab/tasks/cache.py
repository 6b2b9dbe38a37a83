"""Files on the disk: cached arrays, checked each time, and the folders of data sets."""

import hashlib
import io
import json
import logging
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from treefold.atomic import check_writable, write_atomically

VERSION = 1
"""Version of the file and its content: files of other versions are built again."""

_log = logging.getLogger("treefold")

Arrays = dict[str, np.ndarray]


def cache_folder(folder: Path | str | None = None) -> Path:
    """The folder given, or else that of the variable TREEFOLD_CACHE, or else ~/.cache/treefold."""
    chosen = folder or os.environ.get("TREEFOLD_CACHE") or Path("~/.cache/treefold")
    return Path(chosen).expanduser()


def cached_arrays(path: Path, build: Callable[[], Arrays], *, compressed: bool = True) -> Arrays:
    """The arrays of the file `path`; where they are missing or damaged, those of `build`, kept.

    A file is one line with its version and the SHA-256 of the rest, then a NumPy archive. It is
    written whole or not at all, and nothing in it is unpickled. Large ones are read several times
    sooner if they are not compressed.
    """
    try:
        return _unsealed(path.read_bytes())
    except FileNotFoundError:
        pass
    except (_Unusable, OSError) as reason:
        _log.warning("%s cannot be used (%s); building it again", path, reason)
    check_writable(path.parent)
    arrays = build()
    write_atomically(path, _sealed(arrays, compressed))
    return arrays


class _Unusable(Exception):
    """A file cannot be used; the message is the reason."""


def _sealed(arrays: Arrays, compressed: bool) -> bytes:
    packed = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(packed, allow_pickle=False, **arrays)
    content = packed.getvalue()
    return _first_line(content) + content


def _first_line(content: bytes) -> bytes:
    return f"treefold arrays {VERSION} {hashlib.sha256(content).hexdigest()}\n".encode()


def _unsealed(data: bytes) -> Arrays:
    line, _, content = data.partition(b"\n")
    if not line.startswith(f"treefold arrays {VERSION} ".encode()):
        raise _Unusable(f"it begins with {line[:24]!r} and not with version {VERSION}")
    if line + b"\n" != _first_line(content):
        raise _Unusable("its SHA-256 is not that of its content")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return dict(archive)
    except (ValueError, zipfile.BadZipFile) as error:
        raise _Unusable(f"it is no NumPy archive: {error}") from None


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
