"""Learned aggregation across relations: the answers of several layers for a node, folded."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import HeteroConv, MessagePassing

from treefold.aggr.base import RaggedAggregation


class AcrossRelations(nn.Module):
    """PyG's `HeteroConv`, but answers for a node, one per relation, are combined by an aggregator.

    Relations without edges in a batch are left out, as in `HeteroConv`, whose own `aggr` can be a
    name of a reduction only.
    """

    def __init__(
        self, convs: Mapping[tuple[str, str, str], MessagePassing], aggregator: RaggedAggregation
    ) -> None:
        super().__init__()
        self.conv = HeteroConv(dict(convs), aggr=None)
        self.aggregator = aggregator

    def reset_parameters(self) -> None:
        """Reset all layers and the aggregator."""
        self.conv.reset_parameters()
        self.aggregator.reset_parameters()

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """The combined answer for the nodes of each type that some relation points at."""
        answers: dict[str, Tensor] = self.conv(*args, **kwargs)
        return {kind: self.aggregator(each, dim=1).squeeze(1) for kind, each in answers.items()}
