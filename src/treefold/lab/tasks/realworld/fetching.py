"""Fetch a data set: download its archive, unpack the wanted files, write a receipt."""

import hashlib
import json
import shutil
import ssl
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from treefold.atomic import (
    remove_leftovers,
    replaced_atomically,
    storage_errors,
    write_atomically,
)
from treefold.lab.tasks.cache import RECEIPT, data_folder, read_receipt
from treefold.lab.tasks.realworld.download import DownloadError, Progress, download
from treefold.lab.tasks.realworld.readers import OGB_FILES
from treefold.lab.tasks.realworld.tasks import GRAPH_TASKS
from treefold.names import by_name

ZINC_SUBSET = {"train": (220_011, 10_000), "val": (24_445, 1_000), "test": (5_000, 1_000)}
"""Molecules in each split of ZINC, and the number of them that the benchmark uses."""


@dataclass(frozen=True)
class Source:
    """The address of an archive, and the files of a data set in it."""

    url: str
    members: dict[str, str]
    """The name in the archive of each file, by its name in the data set's folder."""


def _superpixels(name: str) -> Source:
    url = f"https://data.pyg.org/datasets/benchmarking-gnns/{name}_v2.zip"
    return Source(url, {f"raw/{name}_v2.pt": f"{name}_v2.pt"})


# The publishers give no SHA-256 of these archives; `fetch` records that of what it got.
SOURCES: dict[str, Source] = {
    "zinc": Source(
        "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1",
        {f"raw/{split}.pickle": f"molecules/{split}.pickle" for split in ZINC_SUBSET},
    ),
    "molhiv": Source(
        "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip",
        {file: f"hiv/{file}" for file in OGB_FILES},
    ),
    "mnist": _superpixels("MNIST"),
    "cifar10": _superpixels("CIFAR10"),
}
"""By the name of the task."""


@dataclass(frozen=True)
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
    context: ssl.SSLContext | None = None,
) -> Fetched:
    """Put the official files of a data set in its folder, unless they are there and whole.

    An archive that was fetched here before must be the same again; `sha256` is the checksum that
    is expected the first time.
    """
    source = by_name(SOURCES, name, "data set")
    folder = data_folder(into) / GRAPH_TASKS[name].folder
    receipt = read_receipt(folder)
    before = receipt["sha256"] if receipt else None
    expected = sha256.lower() if sha256 else before
    if receipt is None:
        _refuse_foreign(folder, source)
    elif receipt["finished"] and before == expected and not damaged(folder, receipt):
        return Fetched(folder, receipt["sha256"], downloaded=False)
    archive = folder / "archive.zip"
    with storage_errors(folder):
        for inside in {folder, *((folder / file).parent for file in source.members)}:
            inside.mkdir(parents=True, exist_ok=True)
            remove_leftovers(inside)
    digest = download(source.url, archive, sha256=expected, progress=progress, context=context)
    try:
        # A process killed from here on leaves a receipt that is not finished.
        _write_receipt(folder, source.url, before, {}, finished=False)
        sums = _unpack(archive, source, folder)
    finally:
        archive.unlink()
    if name == "zinc":
        sums |= _write_zinc_index(folder)
    _write_receipt(folder, source.url, digest, sums, finished=True)
    return Fetched(folder, digest, downloaded=True)


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
            if missing := sorted({*source.members.values()} - {*opened.namelist()}):
                raise DownloadError(f"{source.url} has no {missing[0]}; it is another archive")
            return {
                file: _unpack_one(opened, member, folder / file)
                for file, member in source.members.items()
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DownloadError(
            f"{source.url} is not a whole zip archive ({error}); try again later"
        ) from error


def _unpack_one(opened: zipfile.ZipFile, member: str, path: Path) -> str:
    # zipfile compares the CRC at the end.
    with replaced_atomically(path) as part:
        with opened.open(member) as packed, part.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
        return _sum_of(part)


def zinc_index(split: str) -> str:
    """The numbers of the benchmark's molecules, as published: a sample under a fixed seed."""
    available, used = ZINC_SUBSET[split]
    return ",".join(map(str, Random(42).sample(range(available), used))) + "\n"


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
