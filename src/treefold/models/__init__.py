"""Networks around aggregators."""

from treefold.models.convolutions import CONVOLUTIONS
from treefold.models.graph_layers import NormalizedTowers, PlainLayer
from treefold.models.graph_layout import GraphLayout, Neighbours
from treefold.models.graph_network import GraphNetwork, plain_network, tower_network
from treefold.models.multi_task import MultiTaskNetwork, multi_task_network
from treefold.models.readouts import AggregatorReadout, SizedSet2Set
from treefold.models.set_network import OracleNetwork, SetNetwork
from treefold.models.tower_conv import TowerConv

__all__ = [
    "CONVOLUTIONS",
    "AggregatorReadout",
    "GraphLayout",
    "GraphNetwork",
    "MultiTaskNetwork",
    "Neighbours",
    "NormalizedTowers",
    "OracleNetwork",
    "PlainLayer",
    "SetNetwork",
    "SizedSet2Set",
    "TowerConv",
    "multi_task_network",
    "plain_network",
    "tower_network",
]
