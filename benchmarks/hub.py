"""A graph with a hub: time and peak memory of one aggregation, each in a process of its own.

    python -m benchmarks.hub treefold|pyg

prints the seconds of a forward pass and the bytes by which the peak memory rose.
"""

import sys
import time
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import aggr as pyg

from benchmarks.memory import peak_bytes, printed_by
from treefold import LCMAggregation

NODES, EDGES, HUB, WIDTH = 2_000, 12_000, 4_000, 32


class Cost(NamedTuple):
    seconds: float
    bytes: int


def graph() -> tuple[Tensor, Tensor]:
    """Messages and their targets, sorted: one node gets a third of them."""
    others = torch.randint(1, NODES, (EDGES - HUB,))
    index = torch.cat([torch.zeros(HUB, dtype=torch.int64), others]).sort().values
    return torch.randn(EDGES, WIDTH), index


def measure(which: str) -> Cost:
    """One forward pass without gradients: PyG's backward would not fit in 24 GiB."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    theirs = pyg.LCMAggregation(WIDTH, WIDTH, project=False).eval()
    module = theirs if which == "pyg" else LCMAggregation.from_pyg(theirs)
    x, index = graph()
    with torch.no_grad():
        module(x[:64], index[:64] * 0)  # first calls load libraries
        before = peak_bytes()
        begin = time.perf_counter()
        module(x, index, dim_size=NODES)
        return Cost(time.perf_counter() - begin, peak_bytes() - before)


def in_a_process(which: str) -> Cost:
    seconds, size = printed_by("benchmarks.hub", which).split()
    return Cost(float(seconds), int(size))


if __name__ == "__main__":
    cost = measure(sys.argv[1])
    print(cost.seconds, cost.bytes)
