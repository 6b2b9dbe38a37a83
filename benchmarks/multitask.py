"""`python -m benchmarks.multitask`: a training epoch of the multi-task network beside PyG's.

The multi-task network of the paper's wide row, Binary-GRU in one tower of 128, twice with the same
weights: around treefold's aggregator and around PyG's `LCMAggregation`. Every batch holds graphs of
one size, as in training; a round has a batch of each size, which both take in turn, the largest
first. Times are those of the processor, with one thread; the memory that a side has asked for is
its own from a first step on. The peak memory is that of one step on the largest graphs, in a
process for each.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from benchmarks import beside_pyg
from benchmarks.beside_pyg import Theirs
from benchmarks.memory import peak_of
from benchmarks.timing import ratio_over
from treefold.lab.experiments.build import build_optimizer
from treefold.lab.experiments.multitask import PRESETS, find
from treefold.lab.experiments.multitask_runner import MultiTaskRunner
from treefold.lab.experiments.recipe import Experiment
from treefold.lab.networks import TowerConv
from treefold.lab.tasks import GraphData

PAPER = find("multi-task/binary-gru", "paper")[0]
QUICK = PRESETS["quick"].training
assert QUICK is not None


@dataclass(frozen=True)
class Case:
    """The batches of an epoch; without sizes, graphs of all sizes are trained on."""

    batch_size: int
    sizes: tuple[int, ...] | None = None
    reach: float | None = 3.0


CASES = {
    "quick": Case(QUICK.batch_size),
    # PyG keeps gigabytes for a step on 512 graphs: only the smallest are sure to fit in 8 GiB.
    "paper": Case(PAPER.training.batch_size, sizes=(15,)),
}


class Training:
    """The network of a recipe and its optimiser; `step` trains on a batch."""

    def __init__(self, which: str, experiment: Experiment = PAPER) -> None:
        torch.manual_seed(0)
        self.runner = MultiTaskRunner(experiment, seed=0)
        self.model = self.runner.model().train()
        if which == "pyg":
            put_theirs_into(self.model)
        self.optimizer = build_optimizer(self.model, experiment.training, torch.device("cpu"))

    def step(self, batch: GraphData) -> float:
        loss, _ = self.runner.loss(self.model, batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def put_theirs_into(model: nn.Module) -> None:
    """PyG's aggregators in the place of ours, with the same weights."""
    for layer in [layer for layer in model.modules() if isinstance(layer, TowerConv)]:
        layer.aggregators = nn.ModuleList(Theirs.like(ours) for ours in layer.aggregators)


def one_of_each_size(data: GraphData, case: Case) -> list[GraphData]:
    """The first batch of every size of the case, the largest graphs first."""
    sizes = case.sizes or tuple(data.sizes.unique().tolist())
    found = [(data.sizes == size).nonzero().squeeze(1) for size in sorted(sizes, reverse=True)]
    return [data.take(graphs[: case.batch_size]) for graphs in found]


def peak_of_a_step(which: str, case: Case) -> int:
    """By how many bytes a step on the largest graphs raises the peak memory, the first of it."""
    torch.set_num_threads(1)
    training = Training(which)
    largest = one_of_each_size(training.runner.train(), case)[0]
    training.step(largest.take(torch.arange(2)))  # first calls load libraries and compile
    return peak_of(lambda: training.step(largest))


def row(name: str, rounds: int) -> list[str]:
    torch.set_num_threads(1)
    case, ours, theirs = CASES[name], Training("treefold"), Training("pyg")
    data = ours.runner.train()
    batches = one_of_each_size(data, case)
    for training in (ours, theirs):
        training.step(batches[0])  # loads libraries, compiles, touches its memory first
    times = ratio_over(batches, theirs.step, ours.step, rounds)
    graphs = epoch_size(data, batches)
    per_round = graphs / sum(len(batch) for batch in batches)
    slow, fast = (seconds * per_round for seconds in times.seconds)
    return beside_pyg.row(
        "benchmarks.multitask",
        name,
        f"a training epoch of {graphs:,} graphs of {span(batches)} nodes for six tasks, one tower "
        f"of {PAPER.model.channels}, batches of {case.batch_size}",
        times,
        (slow, fast),
        f"memory for graphs of {int(batches[0].sizes[0])}",
        case.reach,
        less_memory=True,
    )


def epoch_size(data: GraphData, batches: Sequence[GraphData]) -> int:
    """The number of training graphs of the sizes of these batches."""
    return sum(int((data.sizes == batch.sizes[0]).sum()) for batch in batches)


def span(batches: Sequence[GraphData]) -> str:
    largest, smallest = int(batches[0].sizes[0]), int(batches[-1].sizes[0])
    return str(largest) if largest == smallest else f"{smallest} to {largest}"


def rows(rounds: int = 3) -> list[list[str]]:
    """For the page of `make bench`."""
    return [row(name, rounds) for name in CASES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=3, help="passes over all batches")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(peak_of_a_step(given.peak[0], CASES[given.peak[1]]))
        return
    for name in [given.only] if given.only else CASES:
        print(" | ".join(row(name, given.rounds)), flush=True)


if __name__ == "__main__":
    main()
