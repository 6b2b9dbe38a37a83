"""Train, validation and test: the splits that the data has, or random ones."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.lab.tasks import SPLITS, rows_of
from treefold.lab.tasks.your_graphs.collected import Collected
from treefold.lab.tasks.your_graphs.problem import Level
from treefold.shapes import Bool, Int

DEAL: dict[Level, tuple[int, ...]] = {
    "node": (0, 1, 2, 0, 0),
    "graph": (0, 1, 2, 0, 0, 0, 0, 0, 0, 0),
}
"""The splits by number to which examples are dealt in turn, where the data has none."""
SEED = 0


@dataclass(frozen=True, eq=False)
class Split:
    """Graphs to be looked at, and which answers are asked of them."""

    graphs: Int[Tensor, " split"]
    asked: Bool[Tensor, " answers"]
    """True for the answers of the split, of all answers of all graphs."""


def splits_of(
    data: Collected, level: Level, classes: Tensor | None = None
) -> tuple[dict[str, Split], str]:
    """The three splits, and a sentence about where they come from.

    Random ones have their share of each of the `classes`.
    """
    if data.graphs:
        found, source = _by_graphs(data, level), "The splits are those of the data."
    elif level == "node" and data.masks:
        found, source = _by_masks(data, data.masks), "The splits are the masks of the data."
    else:
        found, source = _random(data, level, classes)
    for name, split in found.items():
        if not bool(split.asked.any()):
            raise ValueError(f"the split {name} is empty; expected at least one {level} in it")
    _require_apart(found)
    return found, source


def _by_graphs(data: Collected, level: Level) -> dict[str, Split]:
    sizes = data.sizes if level == "node" else torch.ones_like(data.sizes)
    found = {}
    for name in SPLITS:
        graphs = torch.as_tensor(data.graphs[name]).long()
        asked = torch.zeros(int(sizes.sum()), dtype=torch.bool)
        asked[rows_of(sizes, graphs)] = True
        found[name] = Split(graphs, asked)
    return found


def _by_masks(data: Collected, masks: Mapping[str, Tensor]) -> dict[str, Split]:
    """Graphs without a node in the split are left out of it."""
    graph_of_node = torch.repeat_interleave(data.sizes)
    return {name: Split(graph_of_node[masks[name]].unique(), masks[name]) for name in SPLITS}


def _random(data: Collected, level: Level, classes: Tensor | None) -> tuple[dict[str, Split], str]:
    """Deal examples out like cards, class by class: every split has its share of each."""
    count = int(data.sizes.sum()) if level == "node" else len(data.sizes)
    if count < len(SPLITS) * 2:
        raise ValueError(
            f"{count} {level}s cannot be split into train, val and test; expected 6 or more, or "
            "splits of your own"
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SEED))
    if classes is not None:
        order = order[torch.argsort(classes[order], stable=True)]
    places = torch.arange(count) % len(DEAL[level])
    masks = {}
    for number, name in enumerate(SPLITS):
        masks[name] = torch.zeros(count, dtype=torch.bool)
        masks[name][order[torch.tensor(DEAL[level])[places] == number]] = True
    sizes = [int(mask.sum()) for mask in masks.values()]
    source = (
        f"The data has no splits; {sizes[0]:,}, {sizes[1]:,} and {sizes[2]:,} {level}s were drawn "
        "at random for train, val and test, the same for every run."
    )
    if level == "node":
        return _by_masks(data, masks), source
    return {n: Split(mask.nonzero().squeeze(1), mask) for n, mask in masks.items()}, source


def _require_apart(found: dict[str, Split]) -> None:
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        shared = int((found[one].asked & found[other].asked).sum())
        if shared:
            raise ValueError(
                f"{shared:,} answers are in {one} and in {other}; expected splits that share none"
            )
