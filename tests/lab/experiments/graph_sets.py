"""Small datasets to compare on, and faults to put into them."""

import torch
from torch_geometric.data import Data


def ring(num_nodes, y, generator, channels=2):
    """A directed ring with a chord, random features, and an answer."""
    nodes = torch.arange(num_nodes)
    edges = torch.stack([nodes, nodes.roll(-1)])
    edges = torch.cat([edges, torch.tensor([[0], [num_nodes // 2]])], 1)
    return Data(x=torch.randn(num_nodes, channels, generator=generator), edge_index=edges, y=y)


def graph_classes(count=60):
    """Is the mean of the first feature positive?"""
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for number in range(count):
        graph = ring(4 + number % 5, None, generator)
        graph.y = (graph.x[:, 0].mean() > 0).long().view(1)
        graphs.append(graph)
    return graphs


def graph_numbers(count=60):
    """The mean of the first feature, in odd units."""
    graphs = graph_classes(count)
    for graph in graphs:
        graph.y = 100 + 7 * graph.x[:, 0].mean().view(1)
    return graphs


def one_graph(num_nodes=60, masks=True):
    """A single graph; the answer is if a node's predecessor has a positive first feature."""
    graph = ring(num_nodes, None, torch.Generator().manual_seed(1))
    graph.y = (graph.x[:, 0].roll(1) > 0).long()
    if masks:
        part = torch.arange(num_nodes) % 3
        graph.train_mask, graph.val_mask, graph.test_mask = part == 0, part == 1, part == 2
    return graph
