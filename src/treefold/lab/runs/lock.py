"""A run folder is for one run at a time: a lock that the system takes away with its process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from treefold.atomic import storage_errors

FILE_NAME = ".lock"


class FolderInUse(ValueError):
    """Another process is at work in the folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Inside, no other process may lock `folder`; a `FolderInUse` if one has.

    The file `.lock` is there meanwhile. A killed process leaves it, but not its lock. Where disks
    have no locks, nothing is locked.
    """
    path = folder / FILE_NAME
    lock = FileLock(path, timeout=0)
    with storage_errors(path), suppress(NotImplementedError):
        folder.stat()  # filelock would make a folder that is missing
        _acquire(lock, path)
    try:
        yield
    finally:
        if lock.is_locked:
            with suppress(OSError):
                path.unlink()  # before the lock goes, while it is our own
        lock.release()


def _acquire(lock: BaseFileLock, path: Path) -> None:
    try:
        lock.acquire()
        path.write_text(f"{os.getpid()}\n")
    except Timeout:
        holder = path.read_text(errors="replace").strip() if path.exists() else ""
        raise FolderInUse(
            f"{path.parent} is in use by process {holder or 'unknown'}, which trains there; wait "
            "for it, stop it, or give another --out"
        ) from None
