"""What is measured: each case compares two ways of doing one thing, in one process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.nn import aggr as pyg

import treefold
from benchmarks.timing import Ratio, ratio
from treefold import BinaryGRU, Groups, LCMAggregation, TableRows, TreePlan, plan_tree, tree_reduce
from treefold.fold import PackedOrder, chain_reduce
from treefold.operators import RecurrentGRU

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
    """Random sets: their plan, their rows, and the gradient that comes back."""

    plan: TreePlan
    groups: Groups
    x: Tensor
    grad: Tensor

    @classmethod
    def draw(cls, sizes: Tensor, width: int = WIDTH) -> "Sets":
        groups = Groups.from_sizes(sizes)
        x = torch.randn(int(sizes.sum()), width, requires_grad=True)
        return cls(plan_tree(sizes), groups, x, torch.randn(len(sizes), width))

    @classmethod
    def small(cls, num_sets: int) -> "Sets":
        """Sets of 1 to 16 rows."""
        return cls.draw(torch.randint(1, 17, (num_sets,)))

    def step(self, function: Callable[[], Tensor], *modules: nn.Module) -> Callable[[], None]:
        """Forward and backward, with no gradients before, as in training."""
        leaves = [self.x, *(each for module in modules for each in module.parameters())]

        def run() -> None:
            for leaf in leaves:
                leaf.grad = None
            function().backward(self.grad)

        return run


def floor(num_rows: int, width: int = WIDTH) -> Callable[[], None]:
    """Three multiplications per non-root row with the stacked weights, into given memory."""
    weight, rows = torch.randn(6 * width, width), torch.randn(num_rows, width)
    projected = torch.randn(num_rows, 6 * width)
    to_rows, to_weight = torch.empty_like(rows), torch.empty_like(weight)

    def run() -> None:
        torch.mm(rows, weight.t(), out=projected)
        torch.mm(projected, weight, out=to_rows)
        torch.mm(projected.t(), rows, out=to_weight)

    return run


def fold_against_floor() -> Iterator[Result]:
    for num_sets, most in ((512, 1.3), (32, 2.0)):
        sets, op = Sets.small(num_sets), BinaryGRU(WIDTH)
        ours = sets.step(lambda sets=sets, op=op: tree_reduce(op, sets.x, sets.plan), op)
        measured = ratio(ours, floor(2 * sets.plan.num_applications))
        yield Result(
            f"Binary-GRU fold, {num_sets} sets of 1..16",
            "three bare multiplications per non-root row",
            f"at most {most}x",
            measured,
            measured.median <= most,
        )


def fold_against_pyg() -> Iterator[Result]:
    sets = Sets.small(512)
    theirs = pyg.LCMAggregation(WIDTH, WIDTH, project=False)
    ours = LCMAggregation.from_pyg(theirs)
    balanced = LCMAggregation(WIDTH, ours.operator, shuffle=False)
    measured = ratio(
        sets.step(lambda: theirs(sets.x, sets.groups.index, dim_size=512)),
        sets.step(lambda: balanced(sets.x, sets.groups.index, dim_size=512)),
    )
    yield Result(
        "PyG LCMAggregation, 512 sets of 1..16",
        "treefold LCMAggregation, plan and all",
        "at least 2x",
        measured,
        measured.median >= 2,
    )


def shared_leaves() -> Iterator[Result]:
    sets, op = Sets.small(512), BinaryGRU(WIDTH)
    table = torch.randn(256, WIDTH, requires_grad=True)
    rows = torch.randint(0, 256, (sets.plan.num_rows,))
    measured = ratio(
        sets.step(lambda: tree_reduce(op, table[rows], sets.plan)),
        sets.step(lambda: tree_reduce(op, TableRows(table, rows), sets.plan)),
    )
    yield Result(
        "fold of gathered rows, 256 distinct, 512 sets",
        "fold of `TableRows(table, rows)`",
        "at least 1.5x",
        measured,
        measured.median >= 1.5,
    )


def half_precision() -> Iterator[Result]:
    sets, op = Sets.small(512), BinaryGRU(WIDTH)

    def half() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return tree_reduce(op, sets.x, sets.plan)

    measured = ratio(sets.step(lambda: tree_reduce(op, sets.x, sets.plan)), sets.step(half))
    has_instructions = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    yield Result(
        "float32 multiplications",
        "bfloat16 multiplications",
        "at least 1.5x where there are bf16 instructions",
        measured,
        measured.median >= 1.5 or not has_instructions,
        "" if has_instructions else "this machine has no bf16 instructions: not applicable",
    )


def one_large_set() -> Iterator[Result]:
    op = BinaryGRU(32)
    large = Sets.draw(torch.tensor([1_000_000]), 32)
    many = Sets.draw(torch.full((1000,), 1000), 32)
    measured = ratio(
        large.step(lambda: tree_reduce(op, large.x, large.plan)),
        many.step(lambda: tree_reduce(op, many.x, many.plan)),
        warm_up=1,
    )
    yield Result(
        "one set of 1,000,000 rows, width 32",
        "1,000 sets of 1,000",
        "at most 1.2x",
        measured,
        measured.median <= 1.2,
    )
    sets = Sets.draw(torch.tensor([10_000]), 32)
    recurrent = treefold.aggregator("gru", 32, shuffle=False)
    tree = LCMAggregation(32, op, shuffle=False)
    measured = ratio(
        sets.step(lambda: recurrent.aggregate(sets.x, sets.groups)),
        sets.step(lambda: tree.aggregate(sets.x, sets.groups)),
        warm_up=1,
    )
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
                out = aggregator.aggregate(sets.x, sets.groups)
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
    sets, cell = Sets.small(512), RecurrentGRU(WIDTH)
    gru = nn.GRU(WIDTH, WIDTH)
    order = PackedOrder.of(sets.groups)
    data = sets.x.detach()[order.rows].requires_grad_()
    packed = PackedSequence(data, order.batch_sizes)
    grad = sets.grad[order.by_length]

    def theirs() -> None:
        data.grad = None
        gru(packed)[1][0].backward(grad)

    measured = ratio(
        sets.step(lambda: chain_reduce(cell, sets.x, sets.groups, cell.initial)), theirs
    )
    yield Result(
        "`chain_reduce` with a GRU, 512 sets of 1..16, packing and all",
        "`torch.nn.GRU` on a sequence already packed",
        "at most 1.1x",
        measured,
        measured.median <= 1.1,
    )


CASES = (
    fold_against_floor,
    fold_against_pyg,
    shared_leaves,
    half_precision,
    one_large_set,
    law_losses,
    planning,
    chain_against_torch,
)
