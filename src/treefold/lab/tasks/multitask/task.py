"""The PNA multi-task benchmark: three questions about each node and three about each graph."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import networkx as nx
import torch
from torch import Tensor

from treefold.lab.tasks.cache import cache_folder, cached_arrays
from treefold.lab.tasks.multitask.drawing import DrawnGraphs, draw_graphs
from treefold.lab.tasks.multitask.graph_data import GraphData
from treefold.lab.tasks.multitask.scores import (
    DegreeAverages,
    Scores,
    constant_baseline,
    degree_averages,
    target_maxima,
)
from treefold.lab.tasks.multitask.targets import (
    EXTRAPOLATION_SIZES,
    FIRST_SIZES,
    TRAIN_SIZES,
    VARIANTS,
    assemble,
    normalised,
)
from treefold.names import require_one_of
from treefold.shapes import Float


@dataclass(frozen=True)
class MultiTask:
    """Random graphs of ten families, and the answers of six algorithms.

    The variant `published` has PNA's labels and test sizes; `corrected` has true connectivity and
    tests on all training sizes. Graphs are drawn once, in seconds, and kept in a cache folder: the
    argument `cache`, or else the variable TREEFOLD_CACHE, or else ~/.cache/treefold.

    Seeds run on from one split to the next: train, val, then test; the extrapolation sets follow
    val as well, one after the other. So other numbers of graphs, or another seed, are other data.
    """

    name: ClassVar[str] = "multi-task"

    variant: str = "published"
    num_train: int = 5_120
    num_validation: int = 640
    num_test: int = 1_280
    num_extrapolation: int = 1_280
    seed: int = 1234

    def __post_init__(self) -> None:
        require_one_of(VARIANTS, self.variant, "variant")
        for name in self.splits:
            self._graphs_per_size(name)
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed is {self.seed}; expected 0 to {2**31 - 1}")

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of all splits."""
        return ("train", "val", "test", *EXTRAPOLATION_SIZES)

    def sizes(self, split: str) -> tuple[int, ...]:
        """The numbers of nodes that graphs of a split have."""
        require_one_of(self.splits, split, "split")
        test = VARIANTS[self.variant].test_sizes
        regular = {"train": TRAIN_SIZES, "val": FIRST_SIZES, "test": test}
        return {**regular, **EXTRAPOLATION_SIZES}[split]

    def split(
        self,
        name: str,
        cache: Path | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> GraphData:
        """The graphs of a split, targets divided by their maxima over the training graphs."""
        raw = self.raw_split(name, cache)
        return normalised(raw, self.maxima(cache), dtype)

    def raw_split(self, name: str, cache: Path | str | None = None) -> GraphData:
        """The graphs of a split, targets as the algorithms give them, in double."""
        return assemble(self.drawn(name, cache), self.variant)

    def maxima(self, cache: Path | str | None = None) -> Float[Tensor, " 6"]:
        """The largest value of each target over the training graphs, in the order of `TARGETS`."""
        return target_maxima(self.raw_split("train", cache))

    def degree_averages(self, cache: Path | str | None = None) -> DegreeAverages:
        """Degree averages of the training graphs, which PNA's scalers are relative to."""
        return degree_averages(self.raw_split("train", cache))

    def baseline(self, split: str, cache: Path | str | None = None) -> Scores:
        """The scores of always answering the mean over the training graphs, in double."""
        train, test = (self.split(name, cache, torch.float64) for name in ("train", split))
        return constant_baseline(train, test)

    def drawn(self, split: str, cache: Path | str | None = None) -> DrawnGraphs:
        """The graphs of a split as they were drawn, from the cache or now."""
        folder = cache_folder(cache) / "multitask"
        path = folder / f"{split}-{self._key(split)}.arrays"
        return DrawnGraphs(**cached_arrays(path, lambda: self._draw(split, cache).arrays()))

    def _draw(self, split: str, cache: Path | str | None) -> DrawnGraphs:
        before = self._splits_up_to(split)[:-1]
        counter = int(self.drawn(before[-1], cache).counter) if before else self.seed
        return draw_graphs(self.sizes(split), self._graphs_per_size(split), counter)

    def _splits_up_to(self, split: str) -> tuple[str, ...]:
        """The splits whose seeds come before those of this one, and itself."""
        self.sizes(split)  # refuses unknown names
        drawn = ("train", "val", *EXTRAPOLATION_SIZES)
        return (*drawn[:2], "test") if split == "test" else drawn[: drawn.index(split) + 1]

    def _graphs_per_size(self, split: str) -> int:
        counts = {"train": "num_train", "val": "num_validation", "test": "num_test"}
        name = counts.get(split, "num_extrapolation")
        number, sizes = getattr(self, name), len(self.sizes(split))
        if number < sizes or number % sizes:
            raise ValueError(
                f"{name} is {number}; expected a multiple of {sizes}, as many graphs of each size"
            )
        return int(number // sizes)

    def _key(self, split: str) -> str:
        """Names all that decides what is drawn, of the splits before this one too."""
        plan = [(self.sizes(s), self._graphs_per_size(s)) for s in self._splits_up_to(split)]
        text = json.dumps({"seed": self.seed, "plan": plan, "networkx": nx.__version__})
        return hashlib.sha256(text.encode()).hexdigest()[:16]
