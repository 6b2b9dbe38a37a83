"""A run folder is for one run at a time: a lock that the system takes away with its process."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from treefold.atomic import storage_errors

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FILE_NAME = ".lock"


class FolderInUse(ValueError):
    """Another process is at work in the folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Inside, nobody else may lock `folder`; a `FolderInUse` if somebody has.

    The file `.lock` is there meanwhile. A killed process leaves it, but not its lock. Where disks
    or systems have no locks, nothing is locked.
    """
    descriptor = _acquired(folder / FILE_NAME) if fcntl is not None else None
    try:
        yield
    finally:
        if descriptor is not None:
            with suppress(OSError):
                os.unlink(folder / FILE_NAME)  # before the lock goes, so it is still our own
            os.close(descriptor)


def _acquired(path: Path) -> int | None:
    while True:
        with storage_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor
        except OSError as error:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise FolderInUse(
                    f"{path.parent} is in use by process {holder or 'unknown'}, which trains "
                    "there; wait for it, stop it, or give another --out"
                ) from None
            return None
        os.close(descriptor)  # of a file that its owner has removed in between


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
