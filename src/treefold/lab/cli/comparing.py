"""`treefold compare`: make the runs that are missing, write the page, and print the choice."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from treefold.lab.cli.commands import in_short, world_of
from treefold.lab.cli.display import choose_display
from treefold.lab.cli.watching import watch
from treefold.lab.experiments import Experiment, Listener, Plan, Watcher, compare
from treefold.lab.report import write_comparison
from treefold.lab.runs import FULL, Record
from treefold.lab.tasks import Dataset, load_dataset

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
    """Make the runs that are not finished, write the page, and print its summary.

    The plan is made once the data is there: a Python file may register aggregators of its own.
    """
    processes, precision = machine.processes or 1, machine.precision or FULL
    if processes != 1 or precision != FULL:
        raise ValueError(
            f"compare trains in 1 process with {FULL}, not in {processes} with {precision}; leave "
            "these options out"
        )
    if not dataset.endswith(".py"):
        make_plan()  # then a wrong name is found before any data is read
    found, plan = load_dataset(dataset, data, kind, metric), make_plan()
    folder = out or Path("runs") / "compare" / found.name
    print(_in_words(found), flush=True)
    with choose_display(json_lines=False) as display:

        def begins(experiment: Experiment, seed: int) -> Watcher:
            return watch(display, _title(experiment, seed), experiment)

        def ends(experiment: Experiment, seed: int, record: Record) -> None:
            short = in_short(record) if record.status == "finished" else f"failed: {record.error}"
            display.finish(_title(experiment, seed), short)

        compared = compare(found, plan, folder, world_of(machine), Listener(begins, ends))
    if compared.num_skipped:
        print(f"{compared.num_skipped} of {compared.num_runs} runs were finished before")
    write_comparison(folder)
    print(f"each run is in {folder}/AGGREGATOR/seed-N")
    if compared.failed:
        raise RuntimeError(
            f"{len(compared.failed)} of {compared.num_runs} runs failed: "
            f"{', '.join(compared.failed)}; the page has the reasons"
        )


def _in_words(dataset: Dataset) -> str:
    facts = dataset.facts()
    answers = ", ".join(f"{count:,} {name}" for name, count in facts["answers"].items())
    return (
        f"{dataset.name}: {facts['kind']} of {facts['level']}s, scored by {facts['metric']}; "
        f"{facts['num_graphs']:,} graphs, {facts['num_nodes']:,} nodes, {facts['num_edges']:,} "
        f"edges; {answers}. {' '.join(dataset.notes)}"
    )


def _title(experiment: Experiment, seed: int) -> str:
    return f"{experiment.aggregator.name} seed {seed}"
