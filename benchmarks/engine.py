"""The engine, through the aggregator that users call: against its floors, and against PyG's."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import aggr as pyg

import treefold
from benchmarks import floors
from benchmarks.cases import WIDTH, Result, Sets
from benchmarks.memory import printed
from benchmarks.timing import Ratio, ratio
from treefold.aggr import LCMAggregation, RaggedAggregation

Sizes = Callable[[], Tensor]
SETS: dict[str, Sizes] = {
    "512 sets of 1..16": lambda: torch.randint(1, 17, (512,)),
    "32 sets of 200": lambda: torch.full((32,), 200),
    "4,000 groups of 1..7": lambda: torch.randint(1, 8, (4000,)),
}
FEW: dict[str, Sizes] = {"32 sets of 1..16": lambda: torch.randint(1, 17, (32,))}


def at_most(what: str, against: str, measured: Ratio, one: float, two: float) -> Result:
    """A row whose ratio is to be at most `one` with one thread, and `two` with two."""
    most = one if torch.get_num_threads() == 1 else two
    return Result(what, against, f"at most {most:g}x", measured, measured.median <= most)


def at_least(what: str, against: str, measured: Ratio, least: float, note: str = "") -> Result:
    """A row whose ratio is to be at least that."""
    return Result(what, against, f"at least {least:g}x", measured, measured.median >= least, note)


def against_floor(
    name: str, sizes: dict[str, Sizes], floor: Any, against: str, one: float, two: float
) -> Iterator[Result]:
    for what, draw in sizes.items():
        sets = Sets.draw(draw())
        bare = floor(sets.plan.num_applications, WIDTH)
        measured = ratio(sets.training(treefold.aggregator(name, WIDTH)), bare)
        yield at_most(f"`{name}`, {what}", against, measured, one, two)


def binary_gru() -> Iterator[Result]:
    against = "three bare multiplications per non-root row"
    yield from against_floor("binary-gru", SETS, floors.binary_gru, against, 1.05, 1.1)
    yield from against_floor("binary-gru", FEW, floors.binary_gru, against, 1.35, 2.0)


def gated_selection() -> Iterator[Result]:
    against = "its bare multiplications, three times 7 h² per pair"
    yield from against_floor("gated-selection", SETS, floors.gated_selection, against, 1.15, 1.25)


def gated_selection_general() -> Iterator[Result]:
    sets, aggregator = Sets.small(512), treefold.aggregator("gated-selection-general", WIDTH)

    def step() -> None:
        sets.x.grad = None
        aggregator.zero_grad()
        with treefold.record_penalties() as penalties:
            out = aggregator(sets.x, sets.index, dim_size=len(sets.grad))
        ((out * sets.grad).sum() + penalties.total()).backward()

    with floors.counted_pairs() as pairs:
        for _ in range(20):
            step()
    num_pairs = round(sum(pairs) / 20)
    measured = ratio(step, floors.gated_selection(num_pairs, WIDTH))
    yield at_most(
        "`gated-selection-general`, a training step with its consistency, 512 sets of 1..16",
        f"the bare multiplications of its {num_pairs:,} pairs (mean of 20 steps)",
        measured, 1.25, 1.25,
    )  # fmt: skip


def conjugated_sum() -> Iterator[Result]:
    for what, draw in SETS.items():
        sets = Sets.draw(draw())
        num_rows = sets.plan.num_rows + sets.plan.num_groups
        measured = ratio(
            sets.training(treefold.aggregator("conjugated-sum", WIDTH)),
            floors.coupling_flow(num_rows, WIDTH),
        )
        against = "three bare multiplications per layer of each row encoded and each root decoded"
        yield at_most(f"`conjugated-sum`, {what}", against, measured, 1.3, 1.3)


def half_precision() -> Iterator[Result]:
    has_instructions = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    for name in ("binary-gru", "gated-selection"):
        sets, aggregator = Sets.small(512), treefold.aggregator(name, WIDTH)

        def half(sets: Sets = sets, aggregator: RaggedAggregation = aggregator) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return aggregator(sets.x, sets.index)

        measured = ratio(sets.training(aggregator), sets.step(half, aggregator))
        note = "" if has_instructions else "this machine has no bf16 instructions: not applicable"
        least = 1.7 if has_instructions else 0
        what = f"`{name}`, float32 multiplications"
        yield at_least(what, "bfloat16 multiplications", measured, least, note)


def fold_against_pyg() -> Iterator[Result]:
    for (what, draw), least in zip(SETS.items(), (2.7, 1.3, 2.9), strict=True):
        sets = Sets.draw(draw())
        theirs = pyg.LCMAggregation(WIDTH, WIDTH, project=False)
        ours = LCMAggregation(WIDTH, LCMAggregation.from_pyg(theirs).operator, shuffle=False)
        measured = ratio(
            sets.training(theirs),
            sets.training(ours),
        )
        yield at_least(
            f"PyG LCMAggregation, {what}", "treefold LCMAggregation, plan and all", measured, least
        )


_FIRST = """
import time, torch
torch.set_num_threads({threads})
from {module} import LCMAggregation
aggregator = LCMAggregation({arguments})
x, index = torch.randn(200, {width}, requires_grad=True), torch.arange(200) // 10
begin = time.perf_counter()
aggregator(x, index).sum().backward()
print(time.perf_counter() - begin)
"""


def first_call(rounds: int = 7) -> Iterator[Result]:
    def seconds(module: str, arguments: str) -> float:
        code = _FIRST.format(
            module=module, arguments=arguments, width=WIDTH, threads=torch.get_num_threads()
        )
        return float(printed(["-c", code]))

    times = [
        (
            seconds("treefold.aggr", f"{WIDTH}"),
            seconds("torch_geometric.nn.aggr", f"{WIDTH}, {WIDTH}, project=False"),
        )
        for _ in range(rounds)
    ]
    measured = Ratio.of(times)
    ours, theirs = (1e3 * each for each in measured.seconds)
    yield Result(
        "the first call of our aggregator in a new process, there and back",
        "the first one of PyG's",
        "at most 2x", measured, measured.median <= 2, f"{ours:.0f} ms against {theirs:.0f} ms",
    )  # fmt: skip


CASES = (
    binary_gru,
    gated_selection,
    gated_selection_general,
    conjugated_sum,
    half_precision,
    fold_against_pyg,
    first_call,
)
