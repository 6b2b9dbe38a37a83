"""The border to PyTorch Geometric: labelled graphs as its `Data`."""

from typing import Any

from torch_geometric.data import Data

from treefold.lab.tasks.multitask.graph_data import GraphData


class MultiTaskGraph(Data):  # type: ignore[misc]
    """A graph whose `graph_y` has shape [3], and [graphs, 3] in a batch."""

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """None for `graph_y`: PyG then stacks it."""
        return None if key == "graph_y" else super().__cat_dim__(key, value, *args, **kwargs)


def to_pyg(data: GraphData) -> list[MultiTaskGraph]:
    """The graphs one by one, ready for `DataLoader` and `Batch`."""
    return [
        MultiTaskGraph(
            x=graph.x,
            edge_index=graph.edge_index,
            node_y=graph.node_y,
            graph_y=graph.graph_y,
            num_nodes=graph.num_nodes,
        )
        for graph in data.graphs()
    ]
