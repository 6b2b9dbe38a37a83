"""Small random graphs, alone and in batches, for tests of graph networks."""

import torch


def random_graph(size, seed, edge_probability=0.3):
    """Node inputs `[size, 2]` and edges in both directions, in no particular order."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(size, 2, generator=generator, dtype=torch.float64)
    there = torch.rand(size, size, generator=generator).triu(1) > 1 - edge_probability
    pairs = there.nonzero().T
    edges = torch.cat([pairs, pairs.flip(0)], 1)
    return x, edges[:, torch.randperm(edges.shape[1], generator=generator)]


def together(graphs):
    """The graphs as one batch: inputs, edges, and which graph each node belongs to."""
    sizes = torch.tensor([len(x) for x, _ in graphs])
    starts = sizes.cumsum(0) - sizes
    edges = [edges + start for (_, edges), start in zip(graphs, starts, strict=True)]
    return (
        torch.cat([x for x, _ in graphs]),
        torch.cat(edges, 1),
        torch.repeat_interleave(sizes),
    )
