"""Living sets: what an update and a stream cost beside folding everything again.

    python -m benchmarks.living

streams 10 million rows in a process of its own and prints the seconds, and the bytes by which the
peak memory rose.
"""

import time
from collections.abc import Iterator

import torch

from benchmarks.cases import WIDTH, Result
from benchmarks.hub import Cost
from benchmarks.memory import peak_bytes, printed_by
from benchmarks.timing import ratio
from treefold import BinaryGRU, FoldTree, StreamingFold, plan_tree, tree_reduce
from treefold.algebra import State, stack_size

ELEMENTS, UPDATES = 1_000_000, 1_000
STREAMED, STREAM_WIDTH, CHUNK = 10_000_000, 64, 1 << 16
MEMORY = 300_000_000


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
    cost = measure()
    print(cost.seconds, cost.bytes)
