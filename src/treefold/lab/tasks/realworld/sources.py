"""Addresses of the official files, and their places in the folder of a data set."""

from dataclasses import dataclass
from random import Random

from treefold.lab.tasks.realworld.download import Download
from treefold.lab.tasks.realworld.ogb_files import OGB_FILES

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
