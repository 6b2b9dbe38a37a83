"""What `treefold compare` does."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from treefold.lab.cli.commands import in_short, world_of
from treefold.lab.cli.display import Display, Throttle, choose_display
from treefold.lab.compare import Dataset, Listener, Onlooker, Plan, Row, compare, load_dataset
from treefold.lab.report import write_comparison
from treefold.lab.runs import FULL, Progress, Record

if TYPE_CHECKING:
    from treefold.lab.cli.options import Machine


def compare_aggregators(
    dataset: str,
    data: Path | None,
    kind: str | None,
    metric: str | None,
    make_plan: Callable[[], Plan],
    out: Path | None,
    machine: "Machine",
) -> None:
    """Run what is not done yet, write the page, and say what to pick.

    The plan is made once the data is there: a Python file may register aggregators of its own.
    """
    processes, precision = machine.processes or 1, machine.precision or FULL
    if processes != 1 or precision != FULL:
        raise ValueError(
            f"compare trains in 1 process with {FULL}, not in {processes} with {precision}; leave "
            "these options out"
        )
    if not dataset.endswith(".py"):
        make_plan()  # then a wrong name is found out before any data is read
    found, plan = load_dataset(dataset, data, kind, metric), make_plan()
    folder = out or Path("runs") / "compare" / found.name
    print(_said(found), flush=True)
    with choose_display(json_lines=False) as display:
        compared = compare(found, plan, folder, world_of(machine), _listener(display))
    if compared.num_skipped:
        print(f"{compared.num_skipped} of {compared.num_runs} runs were finished before")
    write_comparison(folder)
    if compared.failed:
        raise RuntimeError(
            f"{len(compared.failed)} of {compared.num_runs} runs failed: "
            f"{', '.join(compared.failed)}; the page says why"
        )


def _said(dataset: Dataset) -> str:
    facts = dataset.facts()
    answers = ", ".join(f"{count:,} {name}" for name, count in facts["answers"].items())
    return (
        f"{dataset.name}: {facts['kind']} of {facts['level']}s, scored by {facts['metric']}; "
        f"{facts['num_graphs']:,} graphs, {facts['num_nodes']:,} nodes, {facts['num_edges']:,} "
        f"edges; {answers}. {' '.join(dataset.notes)}"
    )


def _listener(display: Display) -> Listener:
    def ends(name: str, seed: int, record: Record) -> None:
        short = in_short(record) if record.status == "finished" else f"failed: {record.error}"
        display.finish(_title(name, seed), short)

    return Listener(lambda name, seed: _onlooker(display, _title(name, seed)), ends)


def _title(name: str, seed: int) -> str:
    return f"{name} seed {seed}"


def _onlooker(display: Display, title: str) -> Onlooker:
    ready = Throttle()

    def step(progress: Progress, steps: int, spent: float) -> None:
        if ready and progress.sets:
            counts = _counts(progress.epoch, progress.step, steps, spent)
            display.show(title, {"kind": "step", **counts, "loss": progress.loss / progress.sets})

    def epoch(row: Row, steps: int, spent: float) -> None:
        counts = _counts(int(row["epoch"]), steps, steps, spent)
        display.show(title, {"kind": "epoch", **counts, **row})

    return Onlooker(step, epoch)


def _counts(epoch: int, step: int, steps: int, spent: float) -> dict[str, int]:
    """Where a run is; with a budget of seconds, how many epochs it will be is estimated."""
    done = epoch - 1 + step / steps
    epochs = max(epoch, math.ceil(done / spent - 1e-9) if spent else epoch)
    return {"epoch": epoch, "epochs": epochs, "step": step, "steps": steps}
