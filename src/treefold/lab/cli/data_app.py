"""`treefold data`: fetch data sets of real graphs, or build them from molecules and images."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from treefold.lab.cli.errors import as_one_line
from treefold.lab.cli.options import Debug

data_app = App(name="data", help="Data sets of real graphs: zinc, molhiv, mnist, cifar10.")


@data_app.command(name="fetch")
def data_fetch(
    name: str,
    *,
    into: Annotated[
        Path | None,
        Parameter(help="The folder of all data sets; TREEFOLD_DATA or the cache if not given."),
    ] = None,
    sha256: Annotated[
        str | None, Parameter(help="What the SHA-256 of the archive must be, if you know it.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Download a data set from its publisher, check it, and convert it into safe files.

    What is there and whole is not downloaded again; what is half or damaged is.
    """
    with as_one_line(debug):
        from treefold.lab.cli.data import fetch_data

        fetch_data(name, into, sha256)


build = App(
    name="build", help="Make graphs as in the benchmarks from your own molecules or images."
)
data_app.command(build)


@build.command(name="zinc")
def data_build_zinc(
    table: Annotated[
        Path,
        Parameter(help="A CSV file (or .csv.gz) with a column smiles, and maybe one called split."),
    ],
    *,
    out: Annotated[Path, Parameter(help="Gets the folder ZINC; give it to --data afterwards.")],
    debug: Debug = False,
) -> None:
    """Make graphs and targets (penalised logP) of molecules, as in ZINC, with RDKit.

    SMILES that cannot be read, and atoms or bonds that ZINC does not have, are left out, counted,
    and listed with their lines in left_out.csv. The column split has train, val or test; without
    it, molecules are dealt at random, 8 of 10 to train.
    """
    with as_one_line(debug):
        from treefold.lab.cli.data import build_zinc_data

        build_zinc_data(table, out)


@build.command(name="superpixels")
def data_build_superpixels(
    images: Annotated[
        Path,
        Parameter(
            help="A folder with a sub-folder of PNG or JPEG files for each class (or with such "
            "folders in train, val and test), or an .npz file with arrays x and y."
        ),
    ],
    *,
    out: Annotated[
        Path, Parameter(help="Gets the folder MNIST (grey) or CIFAR10 (colour), for --data.")
    ],
    superpixels: Annotated[
        int | None, Parameter(help="At most so many; 75 if grey, 150 in colour.")
    ] = None,
    compactness: Annotated[
        float | None, Parameter(help="Of SLIC; 0.25 if grey, 10 in colour.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Make graphs of superpixels from images, as in MNIST and CIFAR10, with scikit-image.

    Images that cannot be read are left out, counted, and listed in left_out.csv. Without splits,
    images are dealt at random, 8 of 10 to train.
    """
    with as_one_line(debug):
        from treefold.lab.cli.data import build_superpixel_data

        build_superpixel_data(images, out, superpixels, compactness)
