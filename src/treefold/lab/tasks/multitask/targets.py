"""From drawn graphs to inputs and targets, as PNA's data are and as they were meant."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.lab.tasks.multitask.drawing import DrawnGraphs
from treefold.lab.tasks.multitask.graph_data import GraphData
from treefold.names import by_name
from treefold.shapes import Bool, Float, Int

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


def assemble(drawn: DrawnGraphs, variant: str) -> GraphData:
    """Graphs with the targets of a variant, not normalised and in double."""
    sizes, pairs = (torch.from_numpy(a).long() for a in (drawn.sizes, drawn.num_edges))
    starts = sizes.cumsum(0) - sizes
    values = torch.from_numpy(drawn.values)
    is_source = torch.zeros_like(values)
    is_source[starts + torch.from_numpy(drawn.sources)] = 1
    edges = torch.from_numpy(drawn.edges).T.long() + torch.repeat_interleave(starts, pairs)
    columns = torch.from_numpy(drawn.graph_labels).unbind(1)
    return GraphData(
        x=torch.stack([is_source, values], 1),
        edge_index=_both_directions(edges),
        node_y=torch.from_numpy(drawn.node_labels),
        graph_y=graph_targets(by_name(VARIANTS, variant, "variant"), *columns),
        sizes=sizes,
        num_edges=2 * pairs,
        families=torch.from_numpy(drawn.families).long(),
    )


def normalised(
    data: GraphData, maxima: Float[Tensor, " 6"], dtype: torch.dtype = torch.float32
) -> GraphData:
    """The same graphs with each target divided by its maximum, in the precision wanted."""
    return GraphData(
        x=data.x.to(dtype),
        edge_index=data.edge_index,
        node_y=(data.node_y / maxima[:3]).to(dtype),
        graph_y=(data.graph_y / maxima[3:]).to(dtype),
        sizes=data.sizes,
        num_edges=data.num_edges,
        families=data.families,
    )


def _both_directions(edges: Int[Tensor, " 2 pairs"]) -> Int[Tensor, " 2 edges"]:
    """Each edge there and back, sorted by start, then by end."""
    there_and_back = torch.cat([edges, edges.flip(0)], 1)
    num_nodes = int(edges.max()) + 1 if edges.numel() else 0
    order = (there_and_back[0] * num_nodes + there_and_back[1]).argsort()
    return there_and_back[:, order].contiguous()
