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


MANY_GRAPHS = 10
"""From so many on, questions about nodes are split by graph: nodes of one graph are not alone."""


def splits_of(
    data: Collected, level: Level, classes: Tensor | None = None, by: Level | None = None
) -> tuple[dict[str, Split], str]:
    """The three splits, and a sentence about where they come from.

    Random ones are drawn where the data has none, or if `by` says of what: of whole graphs, or of
    nodes. They have their share of each of the `classes`.
    """
    if by is None and data.graphs:
        found, source = _by_graphs(data, data.graphs, level), "The splits are those of the data."
    elif by is None and level == "node" and data.masks:
        found, source = _by_masks(data, data.masks), "The splits are the masks of the data."
    else:
        many = level == "graph" or len(data.sizes) >= MANY_GRAPHS
        found, source = _random(data, level, by or ("graph" if many else "node"), classes)
    for name, split in found.items():
        if not bool(split.asked.any()):
            raise ValueError(f"the split {name} is empty; expected at least one {level} in it")
    _require_apart(found)
    return found, source


def _by_graphs(data: Collected, graphs: Mapping[str, Tensor], level: Level) -> dict[str, Split]:
    sizes = data.sizes if level == "node" else torch.ones_like(data.sizes)
    found = {}
    for name in SPLITS:
        chosen = torch.as_tensor(graphs[name]).long()
        asked = torch.zeros(int(sizes.sum()), dtype=torch.bool)
        asked[rows_of(sizes, chosen)] = True
        found[name] = Split(chosen, asked)
    return found


def _by_masks(data: Collected, masks: Mapping[str, Tensor]) -> dict[str, Split]:
    """Graphs without a node in the split are left out of it."""
    graph_of_node = torch.repeat_interleave(data.sizes)
    return {name: Split(graph_of_node[masks[name]].unique(), masks[name]) for name in SPLITS}


def _random(
    data: Collected, level: Level, by: Level, classes: Tensor | None
) -> tuple[dict[str, Split], str]:
    """Deal graphs or nodes out like cards, class by class: every split has its share of each."""
    if by == "node" and level == "graph":
        raise ValueError("answers of whole graphs cannot be split by node; split them by graph")
    count = int(data.sizes.sum()) if by == "node" else len(data.sizes)
    if count < len(SPLITS) * 2:
        raise ValueError(
            f"{count} {by}s cannot be split into train, val and test; expected 6 or more, or "
            "splits of your own"
        )
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SEED))
    if classes is not None and by == level:
        order = order[torch.argsort(classes[order], stable=True)]
    dealt = torch.tensor(DEAL[by])[torch.arange(count) % len(DEAL[by])]
    parts = {name: order[dealt == number] for number, name in enumerate(SPLITS)}
    sizes = [len(part) for part in parts.values()]
    of = "" if by == level else f", which is how the {level}s are split"
    source = (
        f"{sizes[0]:,}, {sizes[1]:,} and {sizes[2]:,} {by}s were drawn at random for train, val "
        f"and test, the same for every run{of}."
    )
    if by == "graph":
        return _by_graphs(
            data, {name: part.sort()[0] for name, part in parts.items()}, level
        ), source
    masks = {name: torch.zeros(count, dtype=torch.bool) for name in SPLITS}
    for name, part in parts.items():
        masks[name][part] = True
    return _by_masks(data, masks), source


def _require_apart(found: dict[str, Split]) -> None:
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        shared = int((found[one].asked & found[other].asked).sum())
        if shared:
            raise ValueError(
                f"{shared:,} answers are in {one} and in {other}; expected splits that share none"
            )
