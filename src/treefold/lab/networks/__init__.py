"""Networks around aggregators."""

from treefold.lab.networks.convolutions import CONVOLUTIONS
from treefold.lab.networks.graph_layers import NormalizedTowers, PlainLayer
from treefold.lab.networks.graph_layout import GraphLayout, Neighbours
from treefold.lab.networks.graph_network import GraphNetwork, plain_network, tower_network
from treefold.lab.networks.multi_task import MultiTaskNetwork, multi_task_network
from treefold.lab.networks.readouts import AggregatorReadout, SizedSet2Set
from treefold.lab.networks.set_network import OracleNetwork, SetNetwork
from treefold.lab.networks.tower_conv import TowerConv

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
