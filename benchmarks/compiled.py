"""`python -m benchmarks.compiled`: a two-layer SAGE by torch.compile against the same in eager.

Each row has a process and a compiler's cache of its own. `--row NAME WHAT MAX_SIZE` makes one of
them; `--only NAME` prints those of one name. Run it while nothing else runs.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from unittest import mock

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv, Sequential

import treefold
from benchmarks.memory import printed_by
from benchmarks.pages import made_by, page_path, table
from benchmarks.timing import Ratio, ratio
from treefold.fold import MAX_GROUP_SIZE

WIDTH = 64
NODES, EDGES = 4_000, 30_000
OTHERS = ((100, 500), (150, 900), (1_000, 6_000))
"""Nodes and edges of the graphs that it is compiled with."""
SIZE, MOST_SECONDS, MOST = MAX_GROUP_SIZE, 60, 1.05
"""The largest group, the seconds to compile, and the ratio, with room for noise."""
ROWS = [
    ("binary-gru", "training", SIZE),
    ("binary-gru", "evaluation", SIZE),
    ("gated-selection", "training", SIZE),
    ("gru", "training", SIZE),
    ("binary-mlp", "training", 1 << 7),
]
COLUMNS = (
    *("aggregator", "what", "largest group", "graphs", "seconds to compile"),
    *("compiled / eager (quartiles)", "ms, compiled and eager", "reached"),
)


def network(name: str, what: str) -> nn.Module:
    """Two layers of SAGE."""
    convs = [
        SAGEConv(WIDTH, WIDTH, aggr=treefold.aggregator(name, WIDTH)),
        SAGEConv(WIDTH, WIDTH, aggr=treefold.aggregator(name, WIDTH)),
    ]
    steps = [(convs[0], "x, edges -> x"), nn.ReLU(), (convs[1], "x, edges -> x")]
    return Sequential("x, edges", steps).train(what == "training")


def graph(num_nodes: int, num_edges: int) -> tuple[Tensor, Tensor]:
    """A random one."""
    return torch.randn(num_nodes, WIDTH), torch.randint(num_nodes, (2, num_edges))


def step(model: nn.Module, what: str, *inputs: Tensor) -> Callable[[], None]:
    """A pass over one graph, and in training back."""

    def run() -> None:
        if what == "evaluation":
            with torch.no_grad():
                model(*inputs)
            return
        with treefold.record_penalties() as penalties:
            loss = model(*inputs).square().mean()
        model.zero_grad()
        (loss + penalties.total()).backward()

    return run


def measure(name: str, what: str, size: int) -> tuple[Ratio, float, int]:
    """The ratio, the seconds that compiling took, and the number of graphs."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = network(name, what)
    step(model, what, *graph(20, 50))()  # first calls load libraries
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    with treefold.static_plans(size):
        begin = time.perf_counter()
        for sizes in OTHERS:
            step(compiled, what, *graph(*sizes))()
        seconds = time.perf_counter() - begin
    inputs = graph(NODES, EDGES)

    def by_compiled() -> None:
        with treefold.static_plans(size):
            step(compiled, what, *inputs)()

    found = ratio(by_compiled, step(model, what, *inputs))
    return found, seconds, torch._dynamo.utils.counters["stats"]["unique_graphs"]


def row(name: str, what: str, size: int) -> list[str]:
    found, seconds, graphs = measure(name, what, size)
    ours = name in ("binary-gru", "gated-selection")
    reached = "yes" if found.median <= MOST and seconds <= MOST_SECONDS else "**no**"
    numbers = [f"{graphs}", f"{seconds:.0f}", str(found)]
    times = " and ".join(f"{1e3 * each:.1f}" for each in found.seconds)
    return [f"`{name}`", what, f"{size:,}", *numbers, times, reached if ours else "reported"]


def rows(only: str | None = None) -> list[list[str]]:
    """Each in a process of its own."""
    made = []
    for name, what, size in ROWS:
        if only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                own = {"TORCHINDUCTOR_CACHE_DIR": folder}
                with mock.patch.dict(os.environ, own):
                    printed = printed_by("benchmarks.compiled", "--row", name, what, str(size))
            made.append(json.loads(printed))
            print(" | ".join(made[-1]), file=sys.stderr, flush=True)
    return made


def page(made: list[list[str]]) -> str:
    lines = [
        "# A compiled network against the same in eager",
        "",
        made_by("python -m benchmarks.compiled", "torch", "torch_geometric"),
        "",
        f"Two layers of `SAGEConv`, width {WIDTH}, float32, one thread, `torch.compile(fullgraph="
        f"True, dynamic=True)` inside `static_plans`. It is compiled with {len(OTHERS)} other "
        f"graphs, with an empty cache; both sides are then timed in turn on one of {NODES:,} nodes "
        f"and {EDGES:,} edges, shuffling and planning included. To reach: at most "
        f"{MOST_SECONDS} seconds, and not slower than eager.",
        "",
        *table(COLUMNS, made),
    ]
    return "\n".join(lines) + "\n"


def main(*arguments: str) -> None:
    if arguments[:1] == ("--row",):
        name, what, size = arguments[1:]
        print(json.dumps(row(name, what, int(size))))
    elif arguments:
        rows(arguments[1])
    else:
        page_path("compiled").write_text(page(rows()))


if __name__ == "__main__":
    main(*sys.argv[1:])
