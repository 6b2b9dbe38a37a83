"""Superpixels of an image as a graph, as in the benchmarks of MNIST and CIFAR10.

Needs scikit-image: `pip install 'treefold[build]'`.
"""

from dataclasses import dataclass

import numpy as np
from skimage.segmentation import slic

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
