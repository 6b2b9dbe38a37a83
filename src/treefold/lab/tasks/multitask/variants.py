"""The two variants of the task: as PNA's data are, and as they were meant."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.shapes import Bool

TRAIN_SIZES = tuple(range(15, 25))
FIRST_SIZES = tuple(range(15, 20))
EXTRAPOLATION_SIZES = {
    f"extrapolation-{first}-{first + 4}": tuple(range(first, first + 5))
    for first in (20, 25, 30, 35, 40, 45, 60, 75, 95)
}
"""The nine extrapolation sets, in the order in which they are drawn."""


@dataclass(frozen=True)
class Variant:
    """A variant of the task: its test sizes, and its meaning of "connected"."""

    about: str
    test_sizes: tuple[int, ...]
    connected: Callable[[Bool[Tensor, " graphs"], Bool[Tensor, " graphs"]], Bool[Tensor, " graphs"]]
    """The label, from whether graphs are connected and whether they are bipartite."""


VARIANTS = {
    "published": Variant(
        # PNA squares A, without self-loops, and asks whether all entries are positive: walks of
        # one even length between all pairs exist just where the graph is not bipartite either.
        about="as in PNA: connected means connected and not bipartite, tests on sizes 15 to 19",
        test_sizes=FIRST_SIZES,
        connected=lambda connected, bipartite: connected & ~bipartite,
    ),
    "corrected": Variant(
        about="connected means connected, tests on sizes 15 to 24",
        test_sizes=TRAIN_SIZES,
        connected=lambda connected, bipartite: connected,
    ),
}
"""By name. Both have the same training, validation and extrapolation graphs."""


def graph_targets(
    variant: Variant, connected: Tensor, bipartite: Tensor, diameter: Tensor, radius: Tensor
) -> Tensor:
    """The three targets of each graph, in double."""
    first = variant.connected(connected.bool(), bipartite.bool())
    return torch.stack([first.double(), diameter, radius], -1)
