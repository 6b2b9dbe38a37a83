"""Files that are old or new, never half: written next to the target, synced, renamed over it."""

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# .record.json.4711-9f86d081.tmp: hidden, with the number of the process that made it.
_TEMPORARY = re.compile(r"\..+\.(\d+)-[0-9a-f]{8}\.tmp")

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EDQUOT: "your disk quota is used up; free some space and try again",
    errno.EROFS: "the disk is read-only; choose another folder",
    errno.EACCES: "permission denied; make the folder writable or choose another",
    errno.EPERM: "permission denied; make the folder writable or choose another",
    errno.ENOENT: "the file or its folder is missing; restore it or choose another folder",
    errno.ENOTDIR: "a file stands where a folder should be; choose another folder",
    errno.EEXIST: "a file stands where a folder should be; choose another folder",
    errno.EISDIR: "a folder stands in its place; remove the folder or choose another name",
    errno.EFBIG: "it is larger than files may be here; raise the limit (ulimit -f)",
    errno.EIO: "the disk reports an error; check the disk or choose another folder",
}


class StorageError(OSError):
    """A file could not be written: one line names the file, the reason, and what to do."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Inside, an OSError is raised as a `StorageError` about writing `path`."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, f"{error.strerror or error}; try another folder")
        explained = StorageError(f"cannot write {path}: {reason}")
        explained.errno = error.errno
        raise explained from error


def write_atomically(path: Path, data: bytes) -> None:
    """Make `data` the content of `path`, on the disk when this returns.

    Whatever stops it, a kill and a full disk included, `path` holds all of the old content or all
    of the new.
    """
    with storage_errors(path):
        with _temporary_with(path, data) as temporary:
            os.replace(temporary, path)
        _sync_folder(path.parent)


@contextmanager
def replaced_atomically(path: Path) -> Iterator[Path]:
    """A temporary path next to `path` to write to; it becomes `path` if nothing goes wrong inside.

    For files that are too large to be held in memory at once, see `write_atomically`. An OSError
    inside is taken for one of writing.
    """
    with storage_errors(path):
        temporary = _temporary_path(path)
        try:
            yield temporary
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                os.unlink(temporary)
        _sync_folder(path.parent)


def append_durably(path: Path, data: bytes) -> None:
    """Append `data` to a file, on the disk when this returns; all of it, or an error and nothing.

    Unlike with `write_atomically`, a kill can leave a part of `data` at the end.
    """
    with storage_errors(path), _opened(path, os.O_APPEND) as descriptor:
        length = os.fstat(descriptor).st_size
        try:
            _write_and_sync(descriptor, data)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(descriptor, length)
            raise


def check_writable(folder: Path, num_bytes: int = 1 << 16) -> None:
    """Create `folder` and check that `num_bytes` can be written, or raise a `StorageError`."""
    # Random bytes: some disks store zeros in no space.
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _temporary_with(folder / "probe", os.urandom(num_bytes)):
            pass


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove what killed processes left half-written in `folder`; returns what was removed.

    For the start of a run, before this process writes there itself. Files of other processes that
    still live on this machine are left alone.
    """
    removed = []
    for path in sorted(folder.glob(".*.tmp")):
        name = _TEMPORARY.fullmatch(path.name)
        if name and not _is_another_live_process(int(name[1])):
            with suppress(OSError):
                os.unlink(path)
                removed.append(path)
    return removed


@contextmanager
def _temporary_with(path: Path, data: bytes) -> Iterator[Path]:
    """A temporary file next to `path` with `data` on the disk; removed, unless it was renamed."""
    temporary = _temporary_path(path)
    try:
        with _opened(temporary, os.O_CREAT | os.O_EXCL) as descriptor:
            _write_and_sync(descriptor, data)
        yield temporary
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    # Mode 0o666 leaves it to the umask who may read; tempfile would shut colleagues out.
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0) | flags, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_and_sync(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    """Put the names in `folder` on the disk, where the system has a way to ask for it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network disks cannot sync a folder.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _is_another_live_process(process: int) -> bool:
    if process == os.getpid() or os.name == "nt":
        return False
    try:
        os.kill(process, 0)  # signal 0 only checks
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
