"""Superpixels as PyG's `GNNBenchmarkDataset` has them: one file of three lists of tensors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from treefold.lab.tasks.cache import Arrays
from treefold.lab.tasks.realworld.arrays import RawGraph, stacked
from treefold.lab.tasks.realworld.graphs import SPLITS
from treefold.lab.tasks.realworld.plain_pickle import RefusedFile

_PARTS = ("x", "pos", "edge_index", "edge_attr", "y")


def read_superpixels(path: Path) -> dict[str, Arrays]:
    """Intensities and centres, edges with weights, and the class of each image, of each split."""
    try:
        lists = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can raise nearly anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RefusedFile(
            f"{path} is refused ({reason}); expected lists of tensors and nothing else, the whole "
            "file: fetch it again"
        ) from error
    if not isinstance(lists, list | tuple) or len(lists) != len(SPLITS):
        raise RefusedFile(f"{path} does not hold three lists of graphs, for train, val and test")
    try:
        return {
            split: stacked((_image(entry) for entry in entries), np.int64)
            for split, entries in zip(SPLITS, lists, strict=True)
        }
    except ValueError as error:
        raise RefusedFile(f"{path} cannot be used: {error}") from error


def _image(entry: Any) -> RawGraph:
    if not isinstance(entry, Mapping) or not set(_PARTS) <= set(entry):
        raise ValueError(f"an image is {str(entry)[:60]}; expected tensors {', '.join(_PARTS)}")
    x, pos, edge_attr = (np.asarray(entry[part], np.float32) for part in ("x", "pos", "edge_attr"))
    return RawGraph(
        x=np.concatenate([x.reshape(len(pos), -1), pos], 1),
        edge_index=np.asarray(entry["edge_index"]),
        edge_attr=edge_attr.reshape(-1, 1),
        y=int(entry["y"]),
    )
