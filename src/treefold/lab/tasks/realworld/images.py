"""Images with classes, from folders of PNG and JPEG files or from NumPy arrays."""

import io
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from treefold.lab.tasks.realworld.graphs import SPLITS

ENDINGS = (".png", ".jpg", ".jpeg")
GREY_MODES = ("1", "L", "I;16", "I;16B", "I;16L", "LA", "I", "F")


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


def read_images(source: Path, labels: Path | None = None) -> LabelledImages:
    """The images of a folder, an .npz file, or an .npy file with its labels in another."""
    if labels is not None and source.suffix != ".npy":
        raise ValueError(f"--labels is for .npy files, and {source} is none; leave it out")
    if source.is_dir():
        return _from_folder(source)
    if not source.is_file() or source.suffix not in (".npy", ".npz"):
        raise ValueError(
            f"{source} is no folder and no .npy or .npz file; give a folder with a sub-folder of "
            "PNG or JPEG files for each class, or arrays"
        )
    return _from_arrays(source, labels)


def _from_folder(folder: Path) -> LabelledImages:
    split_folders = [folder / split for split in SPLITS]
    has_splits = all(path.is_dir() for path in split_folders)
    tops: dict[str | None, Path] = {None: folder}
    if has_splits:
        tops = dict(zip(SPLITS, split_folders, strict=True))
    classes = sorted({each.name for top in tops.values() for each in _sub_folders(top)})
    if len(classes) < 2:
        raise ValueError(
            f"{folder} has {len(classes)} sub-folders; expected one for each class, two or more, "
            "in it or in its sub-folders train, val and test"
        )
    images = [
        LabelledImage(str(path.relative_to(folder)), label, split, _file_loader(path))
        for split, top in tops.items()
        for label, name in enumerate(classes)
        for path in _image_files(top / name)
    ]
    if not images:
        raise ValueError(f"{folder} has no files in {', '.join(ENDINGS)}; expected images")
    return LabelledImages(images, classes)


def _sub_folders(folder: Path) -> Iterator[Path]:
    return (each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def _image_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)


def _file_loader(path: Path) -> Callable[[], np.ndarray]:
    def load() -> np.ndarray:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(path) as image:
                    mode = "RGB"
                    if image.mode in GREY_MODES:
                        mode = "L" if image.mode in ("1", "L", "LA") else image.mode
                    pixels = np.asarray(image.convert(mode))
        except UnidentifiedImageError:
            raise BadImage("is no image that can be read") from None
        except Image.DecompressionBombWarning:
            raise BadImage("is too large to be a picture; make it smaller") from None
        except (OSError, SyntaxError, ValueError) as error:
            raise BadImage(f"cannot be read: {error}") from error
        return unit_range(pixels)

    return load


def unit_range(pixels: np.ndarray) -> np.ndarray:
    """Pixels as float32 from 0 to 1: whole numbers by the range of their type, floats as such."""
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise BadImage(
            f"has shape {list(pixels.shape)}; expected [height, width] or [height, width, 3]"
        )
    if not pixels.size:
        raise BadImage(f"has shape {list(pixels.shape)}, and so no pixels")
    if pixels.dtype == np.bool_:
        return pixels.astype(np.float32)
    if pixels.dtype in (np.uint8, np.uint16):
        return pixels.astype(np.float32) / np.iinfo(pixels.dtype).max
    if pixels.dtype == np.int32:  # how 16 bits of grey are handed out
        return unit_range(pixels.clip(0, 65535).astype(np.uint16))
    if not np.issubdtype(pixels.dtype, np.floating):
        raise BadImage(f"has pixels of type {pixels.dtype}; expected uint8, uint16 or floats")
    if not np.isfinite(pixels).all() or pixels.min() < 0 or pixels.max() > 1:
        raise BadImage("has pixels beyond 0 and 1, or none; expected floats from 0 to 1")
    return pixels.astype(np.float32)


def _from_arrays(source: Path, labels: Path | None) -> LabelledImages:
    arrays = _arrays(source)
    if source.suffix == ".npy":
        if labels is None:
            raise ValueError(f"{source} has no labels; name their .npy file with --labels")
        arrays = {"x": arrays["x"], "y": _arrays(labels)["x"]}
    parts = _parts(source, arrays)
    known = np.unique(np.concatenate([y for _, y in parts.values()]))
    if len(known) < 2:
        raise ValueError(f"the labels of {source} are all {known.tolist()}; expected two classes")
    number = {label: place for place, label in enumerate(known.tolist())}
    images = [
        LabelledImage(
            f"{source.name}, image {place}" + (f" of {split}" if split else ""),
            number[y[place].item()],
            split,
            partial(unit_range, np.asarray(x[place])),
        )
        for split, (x, y) in parts.items()
        for place in range(len(x))
    ]
    return LabelledImages(images, [str(label) for label in known.tolist()])


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        found = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        return {"x": found} if isinstance(found, np.ndarray) else dict(found)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as arrays: {error}") from error


def _parts(
    source: Path, arrays: dict[str, np.ndarray]
) -> dict[str | None, tuple[np.ndarray, np.ndarray]]:
    """`x` and `y`, or `x_train`, `y_train` and so on; without val, the first tenth of train."""
    names = {"images": "x", "labels": "y"}
    arrays = {names.get(name, name): array for name, array in arrays.items()}
    parts: dict[str | None, tuple[np.ndarray, np.ndarray]] = {}
    if "x" in arrays and "y" in arrays:
        parts[None] = (arrays["x"], arrays["y"])
    else:
        for split in SPLITS:
            if f"x_{split}" in arrays and f"y_{split}" in arrays:
                parts[split] = (arrays[f"x_{split}"], arrays[f"y_{split}"])
        if set(parts) == {"train", "test"}:
            x, y = parts["train"]
            tenth = len(x) // 10
            parts |= {"train": (x[tenth:], y[tenth:]), "val": (x[:tenth], y[:tenth])}
        if set(parts) != set(SPLITS):
            raise ValueError(
                f"{source} has the arrays {', '.join(arrays) or 'none'}; expected x and y, or "
                "x_train, y_train, x_test, y_test, and maybe x_val, y_val"
            )
    for part, (x, y) in parts.items():
        y = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
        parts[part] = (x, y)
        if y.ndim != 1 or len(x) != len(y) or not np.issubdtype(y.dtype, np.integer):
            raise ValueError(
                f"{source} has {len(x)} images and labels of type {y.dtype} and shape "
                f"{list(y.shape)}; expected a whole number for each image"
            )
    return parts
