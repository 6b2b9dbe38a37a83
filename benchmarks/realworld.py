"""`python -m benchmarks.realworld [--data DIR]`: training steps with Binary-GRU beside PyG's.

The same network twice, around treefold's Binary-GRU and around PyG's `LCMAggregation`, on the same
batches: molecules of ZINC (made-up ones of their sizes where its files are missing), and graphs
with a hub. Steps are timed in turn in one process, so that an epoch's ratio is theirs; the peak
memory is that of a process for each. One thread.
"""

import argparse
import os
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks import beside_pyg
from benchmarks.beside_pyg import MAKERS
from benchmarks.memory import peak_of
from benchmarks.timing import ratio
from treefold.lab.networks import GraphNetwork, NormalizedTowers, TowerConv
from treefold.lab.networks.input_layers import input_layer
from treefold.lab.tasks import ZINC, GraphBatch, GraphStore, MissingData

LAYERS, EDGE_CHANNELS, EPOCH = 4, 50, 10_000


@dataclass(frozen=True)
class Case:
    """A network and its data; `reach` is the ratio it should be faster by."""

    width: int
    towers: int
    batch_size: int
    hub: int = 0
    reach: float | None = None


CASES = {
    "paper": Case(width=70, towers=5, batch_size=128, reach=2.0),
    "quick": Case(width=64, towers=1, batch_size=64),
    # PyG pads every node's messages to the number of the hub's: a few graphs fill gigabytes.
    "hubs": Case(width=64, towers=1, batch_size=4, hub=64),
}


class Training:
    """A network and its optimiser; `step` trains on a batch."""

    def __init__(self, which: str, case: Case) -> None:
        torch.manual_seed(0)
        layers: list[Any] = [
            NormalizedTowers(
                TowerConv(case.width, case.width, MAKERS[which], case.towers, False, EDGE_CHANNELS)
            )
            for _ in range(LAYERS)
        ]
        nodes = input_layer(ZINC.node_input, case.width)
        edges = input_layer(ZINC.edge_input, EDGE_CHANNELS)
        self.model = GraphNetwork(nodes, edges, layers, case.width, 1).train()
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self, batch: GraphBatch) -> None:
        said = self.model(
            batch.x, batch.edge_index, batch.edge_attr, batch.groups.index, len(batch)
        )
        self.optimizer.zero_grad()
        F.l1_loss(said.squeeze(1), batch.y).backward()
        self.optimizer.step()


def graphs(case: Case) -> tuple[GraphStore, str]:
    """The graphs of a case, and what they are."""
    if case.hub:
        return made_up(case.batch_size, case.hub), f"graphs with a hub of degree {case.hub}"
    try:
        return ZINC().split("train"), "ZINC molecules"
    except MissingData:
        return made_up(1_000, 0), "made-up molecules"


def made_up(num_graphs: int, hub: int) -> GraphStore:
    """Rings of 18 to 28 nodes with a chord; and `hub` more nodes that point to one of each."""
    draw = torch.Generator().manual_seed(0)
    rings, parts = torch.randint(18, 29, (num_graphs,), generator=draw), []
    for size in rings.tolist():
        ring = torch.stack([torch.arange(size), torch.arange(1, size + 1) % size])
        chord = torch.tensor([[0], [size // 2]])
        spokes = torch.stack([torch.arange(size, size + hub), torch.zeros(hub, dtype=torch.int64)])
        edges = torch.cat([ring, ring.flip(0), chord, chord.flip(0), spokes], 1)
        parts.append(edges[:, torch.argsort(edges[1], stable=True)])
    num_edges = torch.tensor([edges.shape[1] for edges in parts])
    num_nodes = int(rings.sum()) + hub * num_graphs
    return GraphStore(
        x=torch.randint(28, (num_nodes, 1), generator=draw),
        edge_index=torch.cat(parts, 1),
        edge_attr=torch.randint(4, (int(num_edges.sum()), 1), generator=draw),
        y=torch.randn(num_graphs, generator=draw),
        sizes=rings + hub,
        num_edges=num_edges,
    )


def batch_of(case: Case) -> tuple[GraphBatch, float]:
    """A batch, and the seconds that cutting it took."""
    store, _ = graphs(case)
    chosen = torch.randperm(len(store), generator=torch.Generator().manual_seed(0))
    store.take(chosen[: case.batch_size])
    begin = time.perf_counter()
    batch = store.take(chosen[: case.batch_size])
    return batch, time.perf_counter() - begin


def peak_of_a_step(which: str, case: Case) -> int:
    """By how many bytes a step raises the peak memory, the first of its size."""
    torch.set_num_threads(1)
    store, _ = graphs(case)
    training = Training(which, case)
    training.step(made_up(2, 0).take(torch.arange(2)))  # first calls load libraries and compile
    batch = store.take(torch.arange(case.batch_size))
    return peak_of(lambda: training.step(batch))


def row(name: str, seconds: float) -> list[str]:
    torch.set_num_threads(1)
    case = CASES[name]
    (batch, loading), (_, what) = batch_of(case), graphs(case)
    ours, theirs = Training("treefold", case), Training("pyg", case)
    times = ratio(lambda: theirs.step(batch), lambda: ours.step(batch), seconds, warm_up=1)
    slow, fast = (s * EPOCH / case.batch_size for s in times.seconds)
    return beside_pyg.row(
        "benchmarks.realworld",
        name,
        f"a training epoch of {EPOCH:,} {what}, {LAYERS} layers with {case.towers} x {case.width} "
        f"channels, batches of {case.batch_size}",
        times,
        (slow, fast),
        f"cutting batches takes {loading / times.seconds[1]:.1%} of our time",
        case.reach,
    )


def rows(seconds: float = 10.0) -> list[list[str]]:
    """For the page of `make bench`."""
    return [row(name, seconds) for name in CASES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="the folder of all data sets; TREEFOLD_DATA if not given")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each case, about")
    parser.add_argument("--only", choices=list(CASES))
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.data:
        os.environ["TREEFOLD_DATA"] = given.data
    if given.peak:
        print(peak_of_a_step(given.peak[0], CASES[given.peak[1]]))
        return
    for name in [given.only] if given.only else CASES:
        print(" | ".join(row(name, given.seconds)), flush=True)


if __name__ == "__main__":
    main()
