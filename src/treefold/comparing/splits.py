"""Who learns, who chooses and who judges: the splits that the data has, or random ones."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.comparing.collected import SPLITS, Collected
from treefold.comparing.question import Level
from treefold.shapes import Bool, Int
from treefold.tasks.ragged import rows_of

SHARES: dict[Level, tuple[float, float]] = {"node": (0.6, 0.2), "graph": (0.8, 0.1)}
"""Of train and val where the data has no splits; the rest is test."""
SEED = 0


@dataclass(frozen=True, eq=False)
class Split:
    """Graphs to be looked at, and which answers are asked of them."""

    graphs: Int[Tensor, " split"]
    asked: Bool[Tensor, " answers"]
    """Of all answers of all graphs: whether they belong to the split."""


def splits_of(data: Collected, level: Level) -> tuple[dict[str, Split], str]:
    """The three splits, and a sentence that says where they come from."""
    if data.graphs:
        found, source = _by_graphs(data, level), "The splits are those of the data."
    elif level == "node" and data.masks:
        found, source = _by_masks(data, data.masks), "The splits are the masks of the data."
    else:
        found, source = _random(data, level)
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


def _random(data: Collected, level: Level) -> tuple[dict[str, Split], str]:
    count = int(data.sizes.sum()) if level == "node" else len(data.sizes)
    if count < len(SPLITS) * 2:
        raise ValueError(
            f"{count} {level}s cannot be split into train, val and test; expected 6 or more, or "
            "splits of your own"
        )
    train, val = (max(1, int(share * count)) for share in SHARES[level])
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SEED))
    parts = dict(zip(SPLITS, order.split([train, val, count - train - val]), strict=True))
    source = (
        f"The data has no splits; {train:,}, {val:,} and {count - train - val:,} {level}s were "
        "drawn at random for train, val and test, the same for every run."
    )
    if level == "graph":
        chosen = Collected(
            **{**vars(data), "graphs": {n: p.sort().values for n, p in parts.items()}}
        )
        return _by_graphs(chosen, level), source
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
