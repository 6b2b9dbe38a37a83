"""The four benchmarks of real graphs in the papers on PNA and on learnable monoids."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from treefold.lab.tasks.cache import Arrays
from treefold.lab.tasks.realworld.graphs import GraphStore
from treefold.lab.tasks.realworld.inputs import Categories, Numbers
from treefold.lab.tasks.realworld.ogb_files import OGB_FILES, read_ogb
from treefold.lab.tasks.realworld.superpixel_files import read_superpixels
from treefold.lab.tasks.realworld.task import GraphTask
from treefold.lab.tasks.realworld.zinc_files import read_zinc, zinc_files


@dataclass(frozen=True)
class ZINC(GraphTask):
    """Predict the constrained solubility of a molecule from its atoms and bonds.

    With `subset`, the 12,000 molecules of the benchmark; without, all in the files.
    """

    subset: bool = True

    name: ClassVar[str] = "zinc"
    folder: ClassVar[str] = "ZINC"
    metric: ClassVar[Literal["mae"]] = "mae"
    node_input: ClassVar[Categories] = Categories((28,))
    edge_input: ClassVar[Categories] = Categories((4,))
    num_outputs: ClassVar[int] = 1

    def files(self) -> tuple[str, ...]:
        """Pickles of molecules, and for the subset lists of their numbers."""
        return zinc_files(self.subset)

    def read(self, folder: Path) -> dict[str, Arrays]:
        """From pickles, without running what is in them."""
        return read_zinc(folder, self.subset)


@dataclass(frozen=True)
class MolHIV(GraphTask):
    """Tell whether a molecule stops HIV from multiplying.

    PNA leaves out graphs of five or fewer nodes, in its test too: `leave_out_up_to=5`. The
    standard of OGB is to keep all.
    """

    leave_out_up_to: int = 0

    name: ClassVar[str] = "molhiv"
    folder: ClassVar[str] = "ogbg_molhiv"
    metric: ClassVar[Literal["roc-auc"]] = "roc-auc"
    # Atomic number, chirality, degree, charge, hydrogens, radical electrons, hybridisation,
    # aromatic, in a ring; bond type, stereo, conjugated.
    node_input: ClassVar[Categories] = Categories((119, 5, 12, 12, 10, 6, 6, 2, 2))
    edge_input: ClassVar[Categories] = Categories((5, 6, 2))
    num_outputs: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.leave_out_up_to < 0:
            raise ValueError(f"leave_out_up_to is {self.leave_out_up_to}; expected 0 or more nodes")

    def files(self) -> tuple[str, ...]:
        """Compressed tables."""
        return OGB_FILES

    def read(self, folder: Path) -> dict[str, Arrays]:
        """From tables."""
        return read_ogb(folder)

    def kept(self, store: GraphStore) -> GraphStore:
        """Graphs that are large enough."""
        large = store.sizes > self.leave_out_up_to
        return store if bool(large.all()) else store.only(large.nonzero().squeeze(1))


@dataclass(frozen=True)
class Superpixels(GraphTask):
    """Tell what an image shows, from the means and the centres of its superpixels.

    `classes` may be more than ten for images of your own, see `treefold data build superpixels`.
    """

    classes: int = 10

    metric: ClassVar[Literal["accuracy"]] = "accuracy"
    edge_input: ClassVar[Numbers] = Numbers(1)

    @property
    def num_outputs(self) -> int:  # type: ignore[override]
        """An answer for each class."""
        return self.classes

    def files(self) -> tuple[str, ...]:
        """One file of tensors."""
        return (f"raw/{self.folder}_v2.pt",)

    def read(self, folder: Path) -> dict[str, Arrays]:
        """From tensors."""
        return read_superpixels(folder / self.files()[0])


@dataclass(frozen=True)
class MNIST(Superpixels):
    """Digits, from the mean grey of their superpixels."""

    name: ClassVar[str] = "mnist"
    folder: ClassVar[str] = "MNIST"
    node_input: ClassVar[Numbers] = Numbers(3)


@dataclass(frozen=True)
class CIFAR10(Superpixels):
    """Things and animals, from the mean colour of their superpixels."""

    name: ClassVar[str] = "cifar10"
    folder: ClassVar[str] = "CIFAR10"
    node_input: ClassVar[Numbers] = Numbers(5)


GRAPH_TASKS: dict[str, type[GraphTask]] = {
    task.name: task for task in (ZINC, MolHIV, MNIST, CIFAR10)
}
"""By name."""
