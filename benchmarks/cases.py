"""Measured cases: each compares two ways of doing one thing, in one process."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.nn import aggr as pyg

import treefold
from benchmarks.timing import Ratio, ratio, timed
from treefold import BinaryGRU, Groups, LCMAggregation, TableRows, TreePlan, plan_tree, tree_reduce
from treefold.aggr import MedianAggregation, QuantileAggregation
from treefold.fold import PackedOrder

WIDTH = 128


@dataclass(frozen=True)
class Result:
    """One row of the table: the ratio of the two, and what we set out to reach."""

    what: str
    against: str
    reach: str
    ratio: Ratio
    reached: bool
    note: str = ""


@dataclass(frozen=True)
class Sets:
    """Random sets: their plan, their rows and index, and the gradient that comes back."""

    plan: TreePlan
    groups: Groups
    index: Tensor
    x: Tensor
    grad: Tensor

    @classmethod
    def draw(cls, sizes: Tensor, width: int = WIDTH) -> "Sets":
        groups = Groups.from_sizes(sizes)
        x = torch.randn(int(sizes.sum()), width, requires_grad=True)
        return cls(plan_tree(sizes), groups, groups.index, x, torch.randn(len(sizes), width))

    @classmethod
    def small(cls, num_sets: int) -> "Sets":
        """Sets of 1 to 16 rows."""
        return cls.draw(torch.randint(1, 17, (num_sets,)))

    def training(self, aggregator: nn.Module) -> Callable[[], None]:
        """A step of an aggregator as a layer calls it: shuffling, planning, there and back."""
        return self.step(
            lambda: aggregator(self.x, self.index, dim_size=len(self.grad)), aggregator
        )

    def step(self, function: Callable[[], Tensor], *modules: nn.Module) -> Callable[[], None]:
        """Forward and backward, with no gradients before, as in training."""
        leaves = [self.x, *(each for module in modules for each in module.parameters())]

        def run() -> None:
            for leaf in leaves:
                leaf.grad = None
            function().backward(self.grad)

        return run


def shared_leaves() -> Iterator[Result]:
    sets, aggregator = Sets.small(512), LCMAggregation(WIDTH)
    table = torch.randn(256, WIDTH, requires_grad=True)
    rows = torch.randint(0, 256, (sets.plan.num_rows,))
    measured = ratio(
        sets.step(lambda: aggregator(table[rows], sets.index), aggregator),
        sets.step(
            lambda: aggregator.aggregate(TableRows(table, rows), Groups.from_index(sets.index)),
            aggregator,
        ),
    )
    yield Result(
        "`aggregator(table[rows], index)`, 256 distinct, 512 sets",
        "`aggregator.aggregate(TableRows(table, rows), groups)`",
        "at least 1.5x",
        measured,
        measured.median >= 1.5,
    )


def one_large_set() -> Iterator[Result]:
    tree = LCMAggregation(32, shuffle=False)
    large = Sets.draw(torch.tensor([1_000_000]), 32)
    many = Sets.draw(torch.full((1000,), 1000), 32)
    measured = ratio(large.training(tree), many.training(tree), warm_up=1)
    yield Result(
        "one set of 1,000,000 rows, width 32",
        "1,000 sets of 1,000",
        "at most 1.2x",
        measured,
        measured.median <= 1.2,
    )
    sets = Sets.draw(torch.tensor([10_000]), 32)
    recurrent = treefold.aggregator("gru", 32, shuffle=False)
    measured = ratio(sets.training(recurrent), sets.training(tree), warm_up=1)
    yield Result(
        "`RecurrentAggregation`, one set of 10,000, width 32",
        "`LCMAggregation`",
        "reported",
        measured,
        True,
        f"depth 10,000 against {sets.plan.depth}",
    )


def law_losses() -> Iterator[Result]:
    sets = Sets.small(512)
    plain = LCMAggregation(WIDTH)
    for what, law_nodes, most in (("on all nodes", None, 4.0), ("on 64 nodes", 64, 1.3)):
        regular = LCMAggregation(WIDTH, plain.operator, associativity=1.0, law_nodes=law_nodes)

        def step(aggregator: LCMAggregation) -> None:
            sets.x.grad = None
            with treefold.record_penalties() as penalties:
                out = aggregator(sets.x, sets.index)
            ((out * sets.grad).sum() + penalties.total()).backward()

        measured = ratio(lambda regular=regular: step(regular), lambda: step(plain))
        yield Result(
            f"associativity loss {what}, 512 sets of 1..16",
            "the plain step",
            f"at most {most:g}x",
            measured,
            measured.median <= most,
        )


def planning() -> Iterator[Result]:
    sets, op = Sets.small(512), BinaryGRU(WIDTH)

    @torch.no_grad()
    def forward() -> None:
        tree_reduce(op, sets.x, sets.plan)

    for bracketing in ("balanced", "random"):
        measured = ratio(lambda name=bracketing: plan_tree(sets.groups.sizes, name), forward)
        yield Result(
            f"planning 512 sets, {bracketing}",
            "the forward of one layer",
            "at most 0.10x" if bracketing == "balanced" else "reported",
            measured,
            measured.median <= 0.1 or bracketing != "balanced",
            "nothing when cached: a plan lives as long as its groups",
        )


def chain_against_torch() -> Iterator[Result]:
    sets, ours = Sets.small(512), treefold.aggregator("gru", WIDTH, shuffle=False)
    gru = nn.GRU(WIDTH, WIDTH)
    order = PackedOrder.of(sets.groups)
    data = sets.x.detach()[order.rows].requires_grad_()
    packed = PackedSequence(data, order.batch_sizes)
    grad = sets.grad[order.by_length]

    def theirs() -> None:
        data.grad = None
        gru(packed)[1][0].backward(grad)

    measured = ratio(sets.training(ours), theirs)
    yield Result(
        "`RecurrentAggregation` with a GRU, 512 sets of 1..16, packing and all",
        "`torch.nn.GRU` on a sequence already packed",
        "at most 1.1x",
        measured,
        measured.median <= 1.1,
    )


@contextmanager
def busy_processes(count: int = 2) -> Iterator[None]:
    """Inside, so many processes keep a core busy each, or share those that there are."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.5)  # until they are there
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def small_fold_beside_others(num_times: int = 200) -> Iterator[Result]:
    sets = Sets.draw(torch.tensor([500]), 16)
    step = sets.training(LCMAggregation(16))
    timed(step)
    quiet = [timed(step) for _ in range(num_times)]
    with busy_processes():
        beside = [timed(step) for _ in range(num_times)]
    measured = Ratio.of(list(zip(beside, quiet, strict=True)))
    yield Result(
        "`aggregator(x, index)` beside two busy processes, one set of 500 rows, width 16",
        "the same with the machine to itself",
        "at most 3x",
        measured,
        measured.median <= 3,
        f"{1e3 * measured.seconds[0]:.1f} ms against {1e3 * measured.seconds[1]:.1f} ms",
    )


def quantiles_against_pyg() -> Iterator[Result]:
    quartiles = [0.25, 0.5, 0.75]
    modules = {
        "MedianAggregation": (MedianAggregation(), pyg.MedianAggregation()),
        "QuantileAggregation, three": (
            QuantileAggregation(quartiles),
            pyg.QuantileAggregation(quartiles),
        ),
    }
    for (what, (ours, theirs)), sizes in product(
        modules.items(), (torch.randint(1, 17, (512,)), torch.randint(1, 201, (64,)))
    ):
        sets = Sets.draw(sizes)
        grad = torch.randn_like(theirs(sets.x, sets.index))

        def step(module: nn.Module, sets: Sets = sets, grad: Tensor = grad) -> None:
            sets.x.grad = None
            module(sets.x, sets.index).backward(grad)

        with torch.no_grad():
            forward = ratio(
                partial(theirs, sets.x, sets.index), partial(ours.forward, sets.x, sets.index)
            )
        measured = ratio(partial(step, theirs), partial(step, ours))
        yield Result(
            f"PyG {what}, {len(sizes)} sets of 1..{int(sizes.max())}",
            "treefold's",
            "at least 1.5x, forward alone too",
            measured,
            min(measured.median, forward.median) >= 1.5,
            f"forward alone {forward}",
        )


CASES = (
    quantiles_against_pyg,
    shared_leaves,
    one_large_set,
    law_losses,
    planning,
    chain_against_torch,
    small_fold_beside_others,
)
