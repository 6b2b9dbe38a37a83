"""From drawn graphs to inputs and targets."""

import torch
from torch import Tensor

from treefold.lab.tasks.multitask.drawn import DrawnGraphs
from treefold.lab.tasks.multitask.graph_data import GraphData
from treefold.lab.tasks.multitask.variants import VARIANTS, graph_targets
from treefold.names import by_name
from treefold.shapes import Float, Int


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
