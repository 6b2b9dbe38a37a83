"""The answers of graph algorithms, exact and for many graphs of one size at once."""

from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.shapes import Bool, Float, Int

UNREACHABLE = 1 << 13
"""Stands for the hop distance between nodes without a path; twice it fits into 16 bits."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Results of graph algorithms on graphs of n nodes each."""

    distance: Float[Tensor, " graphs n"]
    """Hops from the source; 0 where no path leads."""
    eccentricity: Float[Tensor, " graphs n"]
    """Hops to the farthest node that can be reached."""
    laplacian: Float[Tensor, " graphs n"]
    """(D - A) x: degree times own value, less the values of the neighbours."""
    connected: Bool[Tensor, " graphs"]
    bipartite: Bool[Tensor, " graphs"]
    diameter: Float[Tensor, " graphs"]
    """The largest eccentricity; of a disconnected graph, that of some component."""
    spectral_radius: Float[Tensor, " graphs"]
    """The largest absolute eigenvalue of A."""


def label(
    adjacency: Bool[Tensor, " graphs n n"],
    values: Float[Tensor, " graphs n"],
    sources: Int[Tensor, " graphs"],
) -> Labels:
    """All answers for undirected graphs without self-loops, in double."""
    hops = hop_distances(adjacency)
    finite = hops.where(hops < UNREACHABLE, 0).double()
    matrix = adjacency.double()
    eccentricity = finite.amax(2)
    return Labels(
        distance=finite[torch.arange(len(finite)), sources],
        eccentricity=eccentricity,
        laplacian=matrix.sum(2) * values - (matrix @ values.double().unsqueeze(2)).squeeze(2),
        connected=(hops < UNREACHABLE).flatten(1).all(1),
        bipartite=is_bipartite(adjacency, hops),
        diameter=eccentricity.amax(1),
        spectral_radius=torch.linalg.eigvalsh(matrix).abs().amax(1),
    )


def hop_distances(adjacency: Bool[Tensor, " graphs n n"]) -> Int[Tensor, " graphs n n"]:
    """Hops between all pairs of nodes by Floyd and Warshall's rule; `UNREACHABLE` for no path."""
    hops = torch.where(adjacency, 1, UNREACHABLE).to(torch.int16)
    hops.diagonal(dim1=1, dim2=2).zero_()
    for via in range(hops.shape[1]):
        detour = hops[:, :, via : via + 1] + hops[:, via : via + 1, :]
        torch.minimum(hops, detour, out=hops)
    return hops


def is_bipartite(
    adjacency: Bool[Tensor, " graphs n n"], hops: Int[Tensor, " graphs n n"]
) -> Bool[Tensor, " graphs"]:
    """True if two colours suffice: no edge joins nodes equally far from their component's first."""
    first = (hops < UNREACHABLE).int().argmax(2)  # the lowest-numbered node in reach
    level = hops.gather(2, first.unsqueeze(2)).squeeze(2)
    within_a_level = adjacency & (level.unsqueeze(1) == level.unsqueeze(2))
    return ~within_a_level.flatten(1).any(1)
