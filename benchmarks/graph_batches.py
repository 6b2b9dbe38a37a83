"""`python -m benchmarks.graph_batches DATA [NAME ...]`: how fast batches of real graphs are cut.

DATA is a folder of data sets as `treefold data fetch` leaves it. PyG's `DataLoader` over the same
graphs, in memory and in this process, stands beside it.
"""

import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from treefold.lab.tasks import GRAPH_TASKS, GraphStore

BATCH = 128
SHARE = 2_000  # PyG's graphs are made one by one, so that all would take long


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ours(store: GraphStore) -> Iterator[object]:
    for chosen in torch.randperm(len(store)).split(BATCH):
        yield store.take(chosen)


def as_pyg(store: GraphStore) -> list[Data]:
    graphs = []
    for number in range(min(SHARE, len(store))):
        graph = store.take(torch.tensor([number]))
        graphs.append(
            Data(x=graph.x, edge_index=graph.edge_index, edge_attr=graph.edge_attr, y=graph.y)
        )
    return graphs


def fastest(batches: Callable[[], Iterator[object]], repeats: int = 3) -> float:
    return min(seconds(lambda: sum(1 for _ in batches())) for _ in range(repeats))


def main(data: str, *names: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| data set | train graphs | first read, s | read, s | graphs/s | PyG graphs/s |")
    print("|---|---|---|---|---|---|")
    for name in names or GRAPH_TASKS:
        task = GRAPH_TASKS[name]()
        first = seconds(lambda task=task: task.split("train", data))
        again = seconds(lambda task=task: task.split("train", data))
        store = task.split("train", data)
        rate = len(store) / fastest(lambda store=store: ours(store))
        graphs = as_pyg(store)
        loader = DataLoader(graphs, batch_size=BATCH, shuffle=True)
        pyg = len(graphs) / fastest(lambda loader=loader: iter(loader))
        print(f"| {name} | {len(store):,} | {first:.1f} | {again:.2f} | {rate:,.0f} | {pyg:,.0f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
