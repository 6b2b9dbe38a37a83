"""From drawn graphs, or a graph of your own, to inputs and targets."""

import torch
from torch import Tensor

from treefold.lab.tasks.multitask.drawn import DrawnGraphs
from treefold.lab.tasks.multitask.graph_data import GraphData, LabelledGraph
from treefold.lab.tasks.multitask.labels import label
from treefold.lab.tasks.multitask.variants import VARIANTS, graph_targets
from treefold.names import by_name
from treefold.shapes import Bool, Float, Int, Shaped


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


def label_graph(
    edge_index: Shaped[Tensor, " *_"],
    values: Float[Tensor, " *n"],
    source: int,
    variant: str = "published",
) -> LabelledGraph:
    """A graph of your own with its targets, not normalised and in double.

    Repeated edges count once. A graph without edges is fine, and so is one node: its distances,
    Laplacian feature and spectral radius are 0. Self-loops, edges in one direction only and a
    graph without nodes are refused.
    """
    if values.dim() != 1:
        raise ValueError(f"values have shape {tuple(values.shape)}; expected one for each node")
    adjacency = adjacency_of(edge_index, len(values)).unsqueeze(0)
    values = values.double()
    labels = label(adjacency, values.unsqueeze(0), torch.tensor([source]))
    chosen = by_name(VARIANTS, variant, "variant")
    of_graph = (labels.connected, labels.bipartite, labels.diameter, labels.spectral_radius)
    is_source = torch.zeros_like(values)
    is_source[source] = 1
    return LabelledGraph(
        x=torch.stack([is_source, values], 1),
        edge_index=adjacency[0].nonzero().T.contiguous(),
        node_y=torch.cat([labels.distance, labels.eccentricity, labels.laplacian]).T.contiguous(),
        graph_y=graph_targets(chosen, *of_graph)[0],
    )


def adjacency_of(edge_index: Shaped[Tensor, " *_"], num_nodes: int) -> Bool[Tensor, " n n"]:
    """The adjacency matrix; repeated edges count once."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        raise ValueError(
            f"edge_index is {edge_index.dtype} of shape {tuple(edge_index.shape)}; "
            "expected integers of shape [2, edges]"
        )
    edge_index = edge_index.long()
    if bool((missing := (edge_index < 0) | (edge_index >= num_nodes)).any()):
        raise ValueError(
            f"edge_index names node {int(edge_index[missing][0])}, but there are {num_nodes} "
            "nodes; number them from 0 and give each a value"
        )
    adjacency = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    adjacency[edge_index[0], edge_index[1]] = True
    return adjacency


def _both_directions(edges: Int[Tensor, " 2 pairs"]) -> Int[Tensor, " 2 edges"]:
    """Each edge there and back, sorted by start, then by end."""
    there_and_back = torch.cat([edges, edges.flip(0)], 1)
    num_nodes = int(edges.max()) + 1 if edges.numel() else 0
    order = (there_and_back[0] * num_nodes + there_and_back[1]).argsort()
    return there_and_back[:, order].contiguous()
