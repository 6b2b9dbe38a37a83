"""Neighbour sampling: a few neighbours of each node, drawn again for every batch.

PyG's `NeighborLoader` does this with pyg_lib or torch_sparse, and works with treefold's aggregators
where one of them is installed. This does it with torch alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.fold import Groups, places_within
from treefold.shapes import Int


@dataclass(frozen=True, eq=False)
class SampledGraph:
    """A small graph around some nodes, with its own numbering."""

    nodes: Int[Tensor, " nodes"]
    """The numbers of these nodes in the large graph; the seeds come first."""
    edge_index: Int[Tensor, " 2 edges"]
    num_seeds: int


class NeighbourSampler:
    """Draws subgraphs: `fanouts[0]` neighbours of each seed, `fanouts[1]` of each of those, ...

    Neighbours are sources of edges that come in. Of a node with more than that many, all are
    equally likely, and none is drawn twice; a node with fewer keeps all.
    """

    def __init__(
        self, edge_index: Int[Tensor, " 2 edges"], num_nodes: int, fanouts: Sequence[int]
    ) -> None:
        if not fanouts or min(fanouts) < 1:
            raise ValueError(f"fanouts are {list(fanouts)}; expected at least one, from 1 up")
        groups = Groups.from_index(edge_index[1], num_nodes)
        self.fanouts = tuple(fanouts)
        self._sources = edge_index[0][groups.order]
        self._degrees = groups.sizes
        self._starts = groups.sizes.cumsum(0) - groups.sizes

    def sample(
        self, seeds: Int[Tensor, " seeds"], generator: torch.Generator | None = None
    ) -> SampledGraph:
        """The graph around `seeds`, which are all different."""
        frontier, nodes, edges = seeds, seeds, []
        for fanout in self.fanouts:
            sources, targets = self._draw(frontier, fanout, generator)
            edges.append(torch.stack([sources, targets]))
            frontier = torch.unique(sources)
            frontier = frontier[~torch.isin(frontier, nodes)]
            nodes = torch.cat([nodes, frontier])
        if len(torch.unique(seeds)) != len(seeds):
            raise ValueError("some seeds are the same; expected each node once")
        by_number = nodes.argsort()
        found = torch.cat(edges, 1)
        local = by_number[torch.searchsorted(nodes[by_number], found)]
        return SampledGraph(nodes, local, len(seeds))

    def _draw(
        self, targets: Tensor, fanout: int, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Edges into `targets`: their sources and their targets."""
        degree = self._degrees[targets]
        count = degree.clamp(max=fanout)
        which = torch.repeat_interleave(count)
        degree, places, counts = degree[which], places_within(count), count[which]
        # One neighbour from each of `count` stretches of the list, which begins at a random place.
        low, high = places * degree // counts, (places + 1) * degree // counts
        begin = _random_below(self._degrees[targets], generator)[which]
        chosen = (low + _random_below(high - low, generator) + begin) % degree
        return self._sources[self._starts[targets][which] + chosen], targets[which]


def _random_below(highest: Tensor, generator: torch.Generator | None) -> Tensor:
    """Integers from 0 to `highest` - 1 (0 where that is empty)."""
    draws = torch.rand(highest.shape, generator=generator, dtype=torch.float64)
    return (draws.to(highest.device) * highest).long()
