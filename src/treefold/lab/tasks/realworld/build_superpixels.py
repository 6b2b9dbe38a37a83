"""Images become graphs of superpixels in the file that PyG and our `MNIST` and `CIFAR10` read."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from skimage.segmentation import slic

from treefold.atomic import replaced_atomically
from treefold.lab.tasks.realworld.building import (
    Built,
    LeftOut,
    Progress,
    numbers_of_splits,
    require_new,
    write_built,
)
from treefold.lab.tasks.realworld.graphs import SPLITS
from treefold.lab.tasks.realworld.images import BadImage, LabelledImage, LabelledImages, read_images
from treefold.lab.tasks.realworld.task import GraphTask
from treefold.lab.tasks.realworld.tasks import CIFAR10, MNIST

NEIGHBOURS = 8
SEED = 111
"""Seed of the order of nodes."""


@dataclass(frozen=True)
class Segmentation:
    """Options of the segmentation: SLIC's compactness, and the most superpixels.

    SLIC is asked for `request`, then for one less each time, until at most `at_most` come out.
    """

    at_most: int
    request: int
    compactness: float

    def __post_init__(self) -> None:
        if self.at_most < 2:
            raise ValueError(f"{self.at_most} superpixels make no graph; expected 2 or more")
        if not self.compactness > 0:
            raise ValueError(f"compactness is {self.compactness}; expected more than 0")

    @classmethod
    def grey(cls, at_most: int | None = None, compactness: float | None = None) -> "Segmentation":
        """As for MNIST: at most 75, asked for 95."""
        count = 75 if at_most is None else at_most
        return cls(count, round(count * 95 / 75), 0.25 if compactness is None else compactness)

    @classmethod
    def colour(cls, at_most: int | None = None, compactness: float | None = None) -> "Segmentation":
        """As for CIFAR10: at most 150, asked for 200."""
        count = 150 if at_most is None else at_most
        return cls(count, round(count * 200 / 150), 10.0 if compactness is None else compactness)


@dataclass(frozen=True, eq=False)
class SuperpixelGraph:
    """The superpixels of one image, nodes in random order."""

    x: np.ndarray
    """Mean intensity of each channel, from 0 to 1."""
    pos: np.ndarray
    """Centre (row, column), in lengths of the image's longer side."""
    edge_index: np.ndarray
    edge_attr: np.ndarray
    """Similarity of the two nodes: a Gaussian of their distance."""


def superpixel_graph(image: np.ndarray, segmentation: Segmentation, number: int) -> SuperpixelGraph:
    """The graph of an image `[height, width]` or `[height, width, 3]` with values from 0 to 1.

    `number` decides the random order of its nodes, which depends on no other image.
    """
    channels = image.reshape(*image.shape[:2], -1).astype(np.float32)
    labels = segments(image, segmentation)
    places = np.indices(labels.shape).reshape(2, -1)
    counts = np.bincount(labels.ravel())
    order = np.random.default_rng([SEED, number]).permutation(len(counts))
    x = _means(labels, counts, channels.reshape(-1, channels.shape[2]).T)[order]
    pos = _means(labels, counts, places)[order] / max(labels.shape)
    edge_index, weights = nearest(pos)
    return SuperpixelGraph(
        x.astype(np.float32), pos.astype(np.float32), edge_index, weights.astype(np.float32)
    )


def segments(image: np.ndarray, segmentation: Segmentation) -> np.ndarray:
    """The number of each pixel's superpixel, from 0 on."""
    axis = -1 if image.ndim == 3 else None
    for request in range(segmentation.request, 0, -1):
        found = slic(
            image.astype(np.float32),
            n_segments=request,
            compactness=segmentation.compactness,
            channel_axis=axis,
            start_label=0,
        )
        _, labels = np.unique(found, return_inverse=True)
        if labels.max() < segmentation.at_most:
            return np.asarray(labels).reshape(found.shape)
    raise ValueError(
        f"cannot be cut into {segmentation.at_most} superpixels or fewer; allow more of them"
    )


def nearest(pos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges from every node to its 8 most similar ones by location, and how similar they are.

    The similarity of i and j is the mean over both of exp(-(distance / scale)²), where a node's
    scale is the mean distance to its 8 nearest. The original code keeps 8 of the 9 most similar
    in no defined order; here it is exactly the 8 most similar.
    """
    pos = pos.astype(np.float64)
    count = len(pos)
    distances = np.sqrt(((pos[:, None] - pos[None]) ** 2).sum(-1))
    scale = np.ones((count, 1))
    if count > NEIGHBOURS:
        scale = np.sort(distances, 1)[:, : NEIGHBOURS + 1].sum(1, keepdims=True) / NEIGHBOURS
    similar = np.exp(-((distances / (scale + 1e-8)) ** 2))
    similar = (similar + similar.T) / 2
    np.fill_diagonal(similar, -1.0)  # never itself
    chosen = np.argsort(-similar, axis=1, kind="stable")[:, : min(NEIGHBOURS, count - 1)]
    senders = np.repeat(np.arange(count), chosen.shape[1])
    edges = np.stack([senders, chosen.reshape(-1)]).astype(np.int64)
    return edges, np.take_along_axis(similar, chosen, 1).reshape(-1)


def _means(labels: np.ndarray, counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean of each row of `values` over the pixels of each superpixel."""
    flat = labels.ravel()
    return np.stack([np.bincount(flat, row) / counts for row in values], 1)


def build_superpixels(
    source: Path,
    out: Path,
    *,
    at_most: int | None = None,
    compactness: float | None = None,
    progress: Progress = lambda done, total: None,
) -> Built:
    """Write the folder `MNIST` (grey images) or `CIFAR10` (images in colour) into `out`.

    `source` is a folder with a sub-folder of PNG or JPEG files for each class (or with such folders
    in `train`, `val` and `test`), or an .npz file with x and y. One image in colour makes all be
    read in colour. Without splits, images are dealt at random, 8 of 10 to train. What cannot be
    used is left out, counted and listed in `left_out.csv`.
    """
    found = read_images(source)
    colour, left_out = _checked(found)
    task: type[GraphTask] = CIFAR10 if colour else MNIST
    cut = Segmentation.colour if colour else Segmentation.grey
    segmentation = cut(at_most, compactness)
    folder = out / task.folder
    require_new(folder)
    bad = {entry.place for entry in left_out}
    usable = [image for image in found.images if image.place not in bad]
    numbers = numbers_of_splits([image.split for image in usable])
    sizes = {split: len(numbers[split]) for split in SPLITS}
    graphs = []
    for number, image in enumerate(usable):
        graphs.append(_entry(image, superpixel_graph(_pixels(image, colour), segmentation, number)))
        progress(number + 1, len(usable))
    with replaced_atomically(folder / "raw" / f"{task.folder}_v2.pt") as path:
        torch.save([[graphs[n] for n in numbers[split]] for split in SPLITS], path)
    about = {
        "from": source.name,
        "graphs": sizes,
        "classes": found.classes,
        "superpixels": segmentation.at_most,
        "compactness": segmentation.compactness,
    }
    write_built(folder, {}, about, left_out)
    return Built(task.name, folder, sizes, tuple(left_out))


def _checked(found: LabelledImages) -> tuple[bool, list[LeftOut]]:
    """Load every image: True if any is in colour, and those that cannot be read."""
    colour, left_out = False, []
    for image in found.images:
        try:
            colour |= image.load().ndim == 3
        except BadImage as error:
            left_out.append(LeftOut(image.place, "", str(error)))
    if len(left_out) == len(found.images):
        raise ValueError(f"none of {len(left_out):,} images can be used; the first: {left_out[0]}")
    return colour, left_out


def _pixels(image: LabelledImage, colour: bool) -> np.ndarray:
    pixels = image.load()
    return pixels[:, :, None].repeat(3, 2) if colour and pixels.ndim == 2 else pixels


def _entry(image: LabelledImage, graph: SuperpixelGraph) -> dict[str, torch.Tensor]:
    parts = {name: torch.from_numpy(array) for name, array in vars(graph).items()}
    return {**parts, "y": torch.tensor([image.label])}
