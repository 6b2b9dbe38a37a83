"""Arrays cached on the disk: built once, checked each time, built again if they are damaged."""

import hashlib
import io
import logging
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

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
