"""Images become graphs of superpixels in the file that PyG and our `MNIST` and `CIFAR10` read."""

from pathlib import Path

import numpy as np
import torch

from treefold.atomic import replaced_atomically
from treefold.lab.tasks.realworld.building import (
    Built,
    LeftOut,
    Progress,
    chosen,
    deal,
    require_new,
    require_splits,
    write_built,
)
from treefold.lab.tasks.realworld.graphs import SPLITS
from treefold.lab.tasks.realworld.images import BadImage, LabelledImage, LabelledImages, read_images
from treefold.lab.tasks.realworld.superpixels import Segmentation, SuperpixelGraph, superpixel_graph
from treefold.lab.tasks.realworld.task import GraphTask
from treefold.lab.tasks.realworld.tasks import CIFAR10, MNIST


def build_superpixels(
    source: Path,
    out: Path,
    *,
    labels: Path | None = None,
    at_most: int | None = None,
    compactness: float | None = None,
    progress: Progress = lambda done, total: None,
) -> Built:
    """Write the folder `MNIST` (grey images) or `CIFAR10` (images in colour) into `out`.

    `source` is a folder with a sub-folder of PNG or JPEG files for each class (or with such folders
    in `train`, `val` and `test`), an .npz file with x and y, or an .npy file with `labels` in
    another. One image in colour makes all be read in colour. Without splits, images are dealt at
    random, 8 of 10 to train. What cannot be used is left out, counted and listed in `left_out.csv`.
    """
    found = read_images(source, labels)
    colour, left_out = _checked(found)
    task: type[GraphTask] = CIFAR10 if colour else MNIST
    cut = Segmentation.colour if colour else Segmentation.grey
    segmentation = cut(at_most, compactness)
    folder = out / task.folder
    require_new(folder)
    bad = {entry.place for entry in left_out}
    usable = [image for image in found.images if image.place not in bad]
    numbers = _numbers(usable)
    sizes = {split: len(numbers[split]) for split in SPLITS}
    graphs = []
    for number, image in enumerate(usable):
        graphs.append(_entry(image, superpixel_graph(_pixels(image, colour), segmentation, number)))
        progress(number + 1, len(usable))
    with replaced_atomically(folder / "raw" / f"{task.folder}_v2.pt") as path:
        torch.save([chosen(graphs, numbers[split]) for split in SPLITS], path)
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


def _numbers(images: list[LabelledImage]) -> dict[str, list[int]]:
    if images[0].split is None:
        return deal(len(images))
    found = {split: [n for n, i in enumerate(images) if i.split == split] for split in SPLITS}
    require_splits({split: len(numbers) for split, numbers in found.items()})
    return found


def _entry(image: LabelledImage, graph: SuperpixelGraph) -> dict[str, torch.Tensor]:
    parts = {name: torch.from_numpy(array) for name, array in vars(graph).items()}
    return {**parts, "y": torch.tensor([image.label])}
