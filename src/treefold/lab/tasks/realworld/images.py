"""Images with classes, from folders of PNG and JPEG files or from NumPy arrays."""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from treefold.lab.tasks.realworld.graphs import SPLITS

ENDINGS = (".png", ".jpg", ".jpeg")
GREY_MODES = ("1", "L", "LA")


class BadImage(ValueError):
    """One image that cannot be used; others can."""


@dataclass(frozen=True)
class LabelledImage:
    """An image that is read when it is asked for."""

    place: str
    label: int
    split: str | None
    load: Callable[[], np.ndarray]
    """Its pixels `[height, width]` or `[height, width, 3]`, from 0 to 1; or a `BadImage`."""


@dataclass(frozen=True)
class LabelledImages:
    """All images of a source."""

    images: list[LabelledImage]
    classes: list[str]


def read_images(source: Path) -> LabelledImages:
    """The images of a folder, or of an .npz file with the arrays x and y."""
    if source.is_dir():
        return _from_folder(source)
    if source.is_file() and source.suffix == ".npz":
        return _from_arrays(source)
    raise ValueError(
        f"{source} is no folder and no .npz file; give a folder with a sub-folder of PNG or JPEG "
        "files for each class, or arrays"
    )


def _from_folder(folder: Path) -> LabelledImages:
    tops: dict[str | None, Path] = {None: folder}
    if all((folder / split).is_dir() for split in SPLITS):
        tops = {split: folder / split for split in SPLITS}
    classes = sorted({each.name for top in tops.values() for each in _sub_folders(top)})
    if len(classes) < 2:
        raise ValueError(
            f"{folder} has {len(classes)} sub-folders; expected one for each class, two or more, "
            "in it or in its sub-folders train, val and test"
        )
    images = [
        LabelledImage(str(path.relative_to(folder)), label, split, partial(_pixels, path))
        for split, top in tops.items()
        for label, name in enumerate(classes)
        for path in sorted((top / name).glob("*"))
        if path.suffix.lower() in ENDINGS
    ]
    if not images:
        raise ValueError(f"{folder} has no files in {', '.join(ENDINGS)}; expected images")
    return LabelledImages(images, classes)


def _sub_folders(folder: Path) -> Iterator[Path]:
    return (each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def _pixels(path: Path) -> np.ndarray:
    try:
        with Image.open(path) as image:
            if image.mode.startswith(("I", "F")):
                raise BadImage(f"has pixels of more than 8 bits ({image.mode}); expected 8")
            return unit_range(np.asarray(image.convert("L" if image.mode in GREY_MODES else "RGB")))
    except UnidentifiedImageError:
        raise BadImage("is no image that can be read") from None
    except (OSError, SyntaxError) as error:
        raise BadImage(f"cannot be read: {error}") from error


def unit_range(pixels: np.ndarray) -> np.ndarray:
    """Pixels as float32 from 0 to 1: whole numbers from 0 to 255, floats from 0 to 1."""
    if pixels.ndim != 2 and (pixels.ndim != 3 or pixels.shape[2] != 3):
        raise BadImage(
            f"has shape {list(pixels.shape)}; expected [height, width] or [height, width, 3]"
        )
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / 255
    if not np.issubdtype(pixels.dtype, np.floating):
        raise BadImage(f"has pixels of type {pixels.dtype}; expected uint8 or floats")
    if not ((pixels >= 0) & (pixels <= 1)).all():
        raise BadImage("has pixels beyond 0 and 1; expected floats from 0 to 1")
    return pixels.astype(np.float32)


def _from_arrays(source: Path) -> LabelledImages:
    try:
        with np.load(source, allow_pickle=False) as archive:
            x, y = archive["x"], archive["y"]
    except KeyError as error:
        raise ValueError(f"{source}: {error.args[0]}; expected the arrays x and y") from None
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{source} cannot be read as arrays: {error}") from error
    if y.ndim != 1 or len(x) != len(y) or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(
            f"{source} has {len(x)} images and labels of type {y.dtype} and shape "
            f"{list(y.shape)}; expected a whole number for each image"
        )
    known = np.unique(y).tolist()
    if len(known) < 2:
        raise ValueError(f"the labels of {source} are all {known}; expected two classes")
    images = [
        LabelledImage(
            f"{source.name}, image {place}",
            known.index(label),
            None,
            partial(unit_range, np.asarray(image)),
        )
        for place, (image, label) in enumerate(zip(x, y.tolist(), strict=True))
    ]
    return LabelledImages(images, [str(label) for label in known])
