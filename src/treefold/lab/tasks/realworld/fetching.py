"""Fetch a data set: download its archive, unpack the wanted files, write a receipt."""

import dataclasses
import hashlib
import json
import os
import shutil
import ssl
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from treefold.atomic import remove_leftovers, storage_errors, write_atomically
from treefold.lab.tasks.cache import RECEIPT, data_folder, read_receipt
from treefold.lab.tasks.realworld.download import (
    PATIENT,
    Download,
    DownloadError,
    Patience,
    Progress,
    download,
    temporary_next_to,
)
from treefold.lab.tasks.realworld.readers import OGB_FILES
from treefold.lab.tasks.realworld.tasks import GRAPH_TASKS
from treefold.names import by_name

_MEGABYTE = 1 << 20

ZINC_SUBSET = {"train": (220_011, 10_000), "val": (24_445, 1_000), "test": (5_000, 1_000)}
"""Molecules in each split of ZINC, and the number of them that the benchmark uses."""


@dataclass(frozen=True)
class Source:
    """An archive, and the files of a data set in it."""

    download: Download
    members: dict[str, str]
    """The name in the archive of each file, by its name in the data set's folder."""
    max_unpacked: int


def zinc_index(split: str) -> str:
    """The numbers of the benchmark's molecules, as published: a sample under a fixed seed."""
    available, used = ZINC_SUBSET[split]
    return ",".join(map(str, Random(42).sample(range(available), used))) + "\n"


def _superpixels(name: str) -> Source:
    url = f"https://data.pyg.org/datasets/benchmarking-gnns/{name}_v2.zip"
    return Source(
        Download(url, ("pyg.org",), 2_000 * _MEGABYTE),
        {f"raw/{name}_v2.pt": f"{name}_v2.pt"},
        8_000 * _MEGABYTE,
    )


# The publishers give no SHA-256 of these archives; `fetch` keeps that of what it got.
SOURCES: dict[str, Source] = {
    "zinc": Source(
        Download(
            "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1",
            ("dropbox.com", "dropboxusercontent.com"),
            1_000 * _MEGABYTE,
        ),
        {f"raw/{split}.pickle": f"molecules/{split}.pickle" for split in ZINC_SUBSET},
        4_000 * _MEGABYTE,
    ),
    "molhiv": Source(
        Download(
            "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip",
            ("stanford.edu",),
            100 * _MEGABYTE,
        ),
        {file: f"hiv/{file}" for file in OGB_FILES},
        100 * _MEGABYTE,
    ),
    "mnist": _superpixels("MNIST"),
    "cifar10": _superpixels("CIFAR10"),
}
"""By the name of the task."""


_ARCHIVE = "archive.zip"


@dataclasses.dataclass(frozen=True)
class Fetched:
    """A data set that is there."""

    folder: Path
    sha256: str
    """Checksum of its archive."""
    downloaded: bool
    """False if it was there already, and whole."""


def fetch(
    name: str,
    into: Path | str | None = None,
    *,
    sha256: str | None = None,
    progress: Progress = lambda done, total: None,
    patience: Patience = PATIENT,
    context: ssl.SSLContext | None = None,
) -> Fetched:
    """Put the official files of a data set in its folder, unless they are there and whole.

    An archive that was fetched here before must be the same again; `sha256` is the checksum that
    is expected the first time.
    """
    source = by_name(SOURCES, name, "data set")
    folder = data_folder(into) / GRAPH_TASKS[name].folder
    _check_sum(sha256)
    receipt = read_receipt(folder)
    before = receipt["sha256"] if receipt else None
    expected = sha256.lower() if sha256 else source.download.sha256 or before
    if receipt is None:
        _refuse_foreign(folder, source)
    elif receipt["finished"] and before == expected and not damaged(folder, receipt):
        return Fetched(folder, receipt["sha256"], downloaded=False)
    wanted = dataclasses.replace(source.download, sha256=expected)
    digest = _fetch_files(name, wanted, folder, before, progress, patience, context)
    return Fetched(folder, digest, downloaded=True)


def _fetch_files(
    name: str,
    wanted: Download,
    folder: Path,
    before: str | None,
    progress: Progress,
    patience: Patience,
    context: ssl.SSLContext | None,
) -> str:
    archive = folder / _ARCHIVE
    with storage_errors(folder):
        for inside in {folder, *((folder / file).parent for file in SOURCES[name].members)}:
            inside.mkdir(parents=True, exist_ok=True)
            remove_leftovers(inside)
    digest = download(wanted, archive, progress, patience, context)
    try:
        # A process killed from here on leaves a receipt that is not finished.
        _write_receipt(folder, wanted.url, before, {}, finished=False)
        sums = _unpack(archive, SOURCES[name], folder)
    finally:
        archive.unlink()
    if name == "zinc":
        sums |= _write_zinc_index(folder)
    _write_receipt(folder, wanted.url, digest, sums, finished=True)
    return digest


def _write_receipt(
    folder: Path, url: str, sha256: str | None, files: dict[str, str], *, finished: bool
) -> None:
    content = {"url": url, "sha256": sha256, "files": files, "finished": finished}
    write_atomically(folder / RECEIPT, json.dumps(content, indent=2).encode())


def damaged(folder: Path, receipt: dict[str, Any]) -> list[str]:
    """The files that are missing, or are not what was fetched."""
    return [
        name
        for name, expected in receipt["files"].items()
        if not (folder / name).is_file() or _sum_of(folder / name) != expected
    ]


def _check_sum(sha256: str | None) -> None:
    if sha256 is not None and (len(sha256) != 64 or set(sha256.lower()) - set("0123456789abcdef")):
        raise ValueError(f"the SHA-256 {sha256!r} is not 64 hexadecimal digits")


def _refuse_foreign(folder: Path, source: Source) -> None:
    """Files that were not fetched are someone's own: they are not replaced."""
    own = [file for file in source.members if (folder / file).exists()]
    if own:
        raise ValueError(
            f"{folder} has {own[0]}, which was not fetched by treefold; it is used as it is. To "
            "fetch the official files, give another folder with --into, or move it away"
        )


def _unpack(archive: Path, source: Source, folder: Path) -> dict[str, str]:
    """Only the wanted members, under our own names: no path in an archive is followed."""
    try:
        with zipfile.ZipFile(archive) as opened:
            sizes = {info.filename: info.file_size for info in opened.infolist()}
            _check_members(sizes, source)
            return {
                file: _unpack_one(opened, member, folder / file)
                for file, member in source.members.items()
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DownloadError(
            f"{source.download.url} is not a whole zip archive ({error}); try again later"
        ) from error


def _check_members(sizes: dict[str, int], source: Source) -> None:
    missing = sorted(set(source.members.values()) - sizes.keys())
    if missing:
        raise DownloadError(f"{source.download.url} has no {missing[0]}; it is another archive")
    unpacked = sum(sizes[member] for member in source.members.values())
    if unpacked > source.max_unpacked:
        raise DownloadError(
            f"{source.download.url} unpacks to {unpacked:,} bytes, expected at most "
            f"{source.max_unpacked:,}"
        )


def _unpack_one(opened: zipfile.ZipFile, member: str, path: Path) -> str:
    # zipfile stops at the size that was checked, and compares the CRC at the end.
    with storage_errors(path), temporary_next_to(path) as part:
        with opened.open(member) as packed, part.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        digest = _sum_of(part)
        part.replace(path)
    return digest


def _write_zinc_index(folder: Path) -> dict[str, str]:
    sums = {}
    for split in ZINC_SUBSET:
        content = zinc_index(split).encode()
        write_atomically(folder / "raw" / f"{split}.index", content)
        sums[f"raw/{split}.index"] = hashlib.sha256(content).hexdigest()
    return sums


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
