"""Incremental sets and graphs: the cost of an update and of a stream, next to folding all again.

    python -m benchmarks.living

streams 10 million rows in a process of its own and prints the seconds, and the bytes by which the
peak memory rose; with `--graphs` it prints rows about updates of a graph, and of three layers.
"""

import json
import sys
import time
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from benchmarks.cases import WIDTH, Result
from benchmarks.hub import Cost
from benchmarks.memory import peak_bytes, printed_by
from benchmarks.timing import ratio, timed
from treefold import (
    BinaryGRU,
    DynamicAggregation,
    DynamicModel,
    FoldTree,
    LCMAggregation,
    StreamingFold,
    plan_tree,
    reuse_plans,
    tree_reduce,
)
from treefold.algebra import State, stack_size

ELEMENTS, UPDATES = 1_000_000, 1_000
STREAMED, STREAM_WIDTH, CHUNK = 10_000_000, 64, 1 << 16
MEMORY = 300_000_000
NODES, EDGES, GRAPH_WIDTH, CHANGES = 169_000, 1_200_000, 32, 100
LEAST_PER_SECOND = {1: 2_000, 1_000: 200_000, 10_000: 500_000}
"""By the number of edges that are added or removed at once."""


class Counting:
    """The operator, with its applications counted."""

    def __init__(self, op: BinaryGRU) -> None:
        self.op, self.identity, self.applications = op, op.identity, 0

    def __call__(self, a: State, b: State) -> State:
        self.applications += stack_size(a)
        return self.op(a, b)


@torch.no_grad()
def living_updates() -> Iterator[Result]:
    op = BinaryGRU(WIDTH)
    x, plan = torch.randn(ELEMENTS, WIDTH), plan_tree([ELEMENTS], "carry")
    counting = Counting(op)
    tree = FoldTree(counting, x)
    counting.applications = 0
    tree.replace(ELEMENTS // 3, torch.randn(1, WIDTH))
    applications = counting.applications
    tree.op = op

    def one() -> None:
        tree.replace(int(torch.randint(ELEMENTS, ())), torch.randn(1, WIDTH))
        tree.value()

    @torch.no_grad()
    def again() -> None:
        tree_reduce(op, x, plan)

    for _ in range(20):
        one()
    measured = ratio(again, one, warm_up=1)
    yield Result(
        f"folding {ELEMENTS:,} elements again, width {WIDTH}",
        "replacing one of them in a `FoldTree`",
        "at least 1,000x, at most 21 applications",
        measured,
        measured.median >= 1000 and applications <= 21,
        f"{applications} applications, {measured.seconds[1] * 1e3:.2f} ms against "
        f"{measured.seconds[0]:.2f} s; {tree.num_bytes / x.nbytes:.2f}x the memory of the rows",
    )
    handles, rows = torch.randperm(ELEMENTS)[:UPDATES], torch.randn(UPDATES, WIDTH)

    def singly() -> None:
        for place in range(UPDATES):
            tree.replace(handles[place], rows[place : place + 1])

    measured = ratio(singly, lambda: tree.replace(handles, rows), warm_up=1)
    yield Result(
        f"{UPDATES:,} random replacements among {ELEMENTS:,}, one by one",
        "the same in one batch",
        "at least 5x",
        measured,
        measured.median >= 5,
        f"{measured.seconds[0] * 1e3:,.0f} ms against {measured.seconds[1] * 1e3:,.0f} ms",
    )


@torch.no_grad()
def streaming_throughput() -> Iterator[Result]:
    op = BinaryGRU(STREAM_WIDTH)
    x, plan = torch.randn(ELEMENTS, STREAM_WIDTH), plan_tree([ELEMENTS], "carry")

    def streamed() -> None:
        fold = StreamingFold(op)
        for chunk in x.split(CHUNK):
            fold.feed(chunk)
        fold.value()

    @torch.no_grad()
    def at_once() -> None:
        tree_reduce(op, x, plan)

    measured = ratio(at_once, streamed, warm_up=1)
    yield Result(
        f"fold of {ELEMENTS:,} rows in memory, width {STREAM_WIDTH}, its plan given",
        f"`StreamingFold` in chunks of {CHUNK:,}: its throughput beside that",
        "at least 0.8x",
        measured,
        measured.median >= 0.8,
    )


CASES = (living_updates, streaming_throughput)


def graph() -> tuple[Tensor, Tensor]:
    """Features and directed edges, all drawn alike."""
    torch.manual_seed(0)
    return torch.randn(NODES, GRAPH_WIDTH), torch.randint(NODES, (2, EDGES))


def update_rows() -> Iterator[list[str]]:
    """Edges added and then removed, so many at once."""
    dynamic = DynamicAggregation(BinaryGRU(GRAPH_WIDTH), *graph())
    for batch, least in LEAST_PER_SECOND.items():
        batches = torch.randint(NODES, (2, 20 * batch if batch > 1 else 500)).split(batch, 1)
        for act in (dynamic.add_edges, dynamic.remove_edges) * 2:  # the first two warm up
            for edges in batches:
                act(edges)
        seconds = [
            timed(lambda act=act, batches=batches: [act(edges) for edges in batches])
            for act in (dynamic.add_edges, dynamic.remove_edges)
        ]
        count = sum(edges.shape[1] for edges in batches)
        rate = 2 * count / sum(seconds)
        yield [
            f"edges added and removed, {batch:,} at a time, {NODES:,} nodes, {EDGES:,} edges, "
            f"width {GRAPH_WIDTH}, one thread",
            "",
            f"{rate:,.0f} per second",
            f"at least {least:,}",
            "yes" if rate >= least else "**no**",
            f"added {count / seconds[0]:,.0f}, removed {count / seconds[1]:,.0f} per second",
        ]


def layers_with(op: object) -> list[nn.Module]:
    """Three layers with the same operator."""
    width = GRAPH_WIDTH
    convs = (
        SAGEConv(width, width, aggr=LCMAggregation(width, op, eval_bracketing="carry"))  # type: ignore[arg-type]
        for _ in range(3)
    )
    return [module for conv in convs for module in (conv.eval(), nn.Tanh())]


def changes(times: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Edges to add, and then to remove: half of the changes each."""
    draw = torch.Generator().manual_seed(1)
    for _ in range(times):
        both = torch.randint(NODES, (2, CHANGES), generator=draw).chunk(2, 1)
        yield both[0], both[1]


@torch.no_grad()
def layers_row(times: int = 5) -> list[str]:
    """Batches of changes through three layers, against all computed again."""
    op, (x, edges) = BinaryGRU(GRAPH_WIDTH), graph()
    per_round = []
    for each in (counting := Counting(op), op):
        layers = layers_with(each)
        model = DynamicModel(layers, x, edges)
        counters = [layer.tree.op for layer in model._layers]
        for counter in counters if each is counting else ():
            counter.applications = 0
        seconds = []
        for number, (new, old) in enumerate(changes(times + 1)):
            model.add_edges(old)  # to remove them with the clock running
            if each is counting:
                before = sum(counter.applications for counter in counters)
            seconds.append(timed(partial(_changed, model, new, old)))
            if each is counting and number:
                per_round.append(sum(c.applications for c in counters) - before)
    at_once = []
    for _ in range(3):
        with reuse_plans():
            at_once.append(timed(lambda: _at_once(layers, x, edges)))
    applications = 3 * (EDGES - int((torch.bincount(edges[1], minlength=NODES) > 0).sum()))
    fewer = applications * times / sum(per_round)
    faster = min(at_once) / (sum(seconds[1:]) / times)
    return [
        f"{CHANGES} edges changed below three layers (`SAGEConv`, Binary-GRU), one thread",
        "all computed again",
        f"{faster:,.0f}x the speed, {fewer:,.0f}x fewer applications",
        "at least half of that share",
        "yes" if 2 * faster >= fewer else "**no**",
        f"{1e3 * sum(seconds[1:]) / times:.1f} ms against {min(at_once):.2f} s",
    ]


def _changed(model: DynamicModel, new: Tensor, old: Tensor) -> None:
    model.add_edges(new)
    model.remove_edges(old)


def _at_once(layers: list[nn.Module], x: Tensor, edges: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x, edges) if isinstance(layer, SAGEConv) else layer(x)
    return x


def measure() -> Cost:
    """Fold a stream of random rows, drawn chunk by chunk."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    op = BinaryGRU(STREAM_WIDTH)
    warm = StreamingFold(op)
    warm.feed(torch.randn(8, STREAM_WIDTH))  # first calls load libraries
    before, begin = peak_bytes(), time.perf_counter()
    fold = StreamingFold(op)
    for start in range(0, STREAMED, CHUNK):
        fold.feed(torch.randn(min(CHUNK, STREAMED - start), STREAM_WIDTH))
    fold.value()
    return Cost(time.perf_counter() - begin, peak_bytes() - before)


def stream_row() -> list[str]:
    seconds, size = printed_by("benchmarks.living").split()
    cost = Cost(float(seconds), int(size))
    return [
        f"`StreamingFold` of {STREAMED:,} rows, width {STREAM_WIDTH}, in chunks of {CHUNK:,}",
        f"its rows in memory, {STREAMED * STREAM_WIDTH * 4 / 1e6:,.0f} MB",
        f"{cost.bytes / 1e6:,.0f} MB above the model",
        f"at most {MEMORY / 1e6:.0f} MB",
        "yes" if cost.bytes <= MEMORY else "**no**",
        f"{cost.seconds:.1f} s, one thread, drawing the rows included",
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "--graphs" in sys.argv:
        print(json.dumps([*update_rows(), layers_row()], indent=1))
    else:
        cost = measure()
        print(cost.seconds, cost.bytes)
