"""`treefold compare`: make the runs that are missing, write the page, and print the choice."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from treefold.lab.cli.errors import as_one_line
from treefold.lab.cli.options import HERE, Debug, Where

if TYPE_CHECKING:
    from treefold.lab.cli.display import Display
    from treefold.lab.cli.options import Machine
    from treefold.lab.experiments import Experiment, Listener, Plan, Watcher
    from treefold.lab.runs import Record
    from treefold.lab.tasks import Dataset


def compare(
    dataset: Annotated[
        str,
        Parameter(
            help="A Python file with a function dataset() that returns a PyG dataset, a list of "
            "graphs or one graph (or three of them: train, val, test); or zinc, molhiv, mnist, "
            "cifar10; or the name of a TU dataset, such as MUTAG, with its text files."
        ),
    ],
    *,
    data: Annotated[
        Path | None,
        Parameter(help="The folder above that of a named dataset; TREEFOLD_DATA if not given."),
    ] = None,
    aggregators: Annotated[
        str | None, Parameter(help="Names with commas; all of the registry if not given.")
    ] = None,
    seeds: Annotated[int, Parameter(help="Runs of each aggregator.")] = 3,
    epochs: Annotated[
        int | None, Parameter(help="Of every run; 30 if seconds are not given either.")
    ] = None,
    seconds: Annotated[
        float | None, Parameter(help="Of training for every run, instead of epochs.")
    ] = None,
    minutes: Annotated[
        float | None,
        Parameter(help="Of training for all runs together, shared alike; scoring comes on top."),
    ] = None,
    channels: Annotated[int, Parameter(help="Width of the GNN.")] = 32,
    layers: Annotated[int, Parameter(help="Of message passing.")] = 2,
    batch_size: Annotated[int, Parameter(help="Graphs per step.")] = 64,
    learning_rate: Annotated[float, Parameter(help="Of Adam, for all alike.")] = 3e-3,
    task: Annotated[
        str | None,
        Parameter(help="classification or regression, where it cannot be inferred."),
    ] = None,
    metric: Annotated[
        str | None, Parameter(help="accuracy, roc-auc or mae; inferred if not given.")
    ] = None,
    split: Annotated[
        str | None,
        Parameter(
            help="Draw splits at random, of whole graphs (graph) or of nodes (node). If not given: "
            "the data's own; for nodes of ten graphs and more by graph, of fewer by node."
        ),
    ] = None,
    out: Annotated[
        Path | None, Parameter(help="For runs and page; runs/compare/NAME if not given.")
    ] = None,
    machine: Where = HERE,
    debug: Debug = False,
) -> None:
    """Compare aggregators on your own graphs: which to pick, and how sure that is.

    Every aggregator sits in the same small GNN and gets the same budget. The problem is inferred
    from y: of nodes or of graphs; whole numbers are classes, floats are numbers. Splits are
    train_mask, val_mask and test_mask, or random. A table grows while it runs, and at the end there
    is a page of scores, times, memory and law violations. The same command resumes where it was
    stopped, and skips finished runs; evaluate, laws and resume take their folders. A Python file is
    run: give only one that you trust.
    """
    with as_one_line(debug):
        from treefold.lab.experiments import Budget, Plan, SmallModel, parse_aggregators
        from treefold.lab.tasks import load_dataset

        _require_one_process(machine)
        model = SmallModel(channels, layers)

        def plan() -> Plan:
            names = parse_aggregators(aggregators)
            budget = Budget.of(epochs, seconds, minutes, len(names) * seeds)
            budget = replace(budget, batch_size=batch_size, learning_rate=learning_rate)
            return Plan(names, seeds, budget, model)

        if not dataset.endswith(".py"):
            plan()  # then a wrong name is found before any data is read
        found = load_dataset(dataset, data, task, metric, split)
        # The plan is made once the data is there: a Python file may register aggregators.
        _carry_out(plan(), found, out or Path("runs") / "compare" / found.name, machine)


def _require_one_process(machine: "Machine") -> None:
    from treefold.lab.runs import FULL

    processes, precision = machine.processes or 1, machine.precision or FULL
    if processes != 1 or precision != FULL:
        raise ValueError(
            f"compare trains in 1 process with {FULL}, not in {processes} with {precision}; leave "
            "these options out"
        )


def _carry_out(plan: "Plan", dataset: "Dataset", folder: Path, machine: "Machine") -> None:
    """Make the runs that are not finished, write the page, and print its summary."""
    from treefold.lab.cli.commands import world_of
    from treefold.lab.cli.display import choose_display
    from treefold.lab.experiments import compare as compare_all
    from treefold.lab.report import write_comparison

    print(_in_words(dataset), flush=True)
    with choose_display(json_lines=False) as display:
        done = compare_all(dataset, plan, folder, world_of(machine), _listener(display))
    if done.num_skipped:
        print(f"{done.num_skipped} of {done.num_runs} runs were finished before")
    write_comparison(folder)
    print(f"each run is in {folder}/AGGREGATOR/seed-N")
    if done.failed:
        raise RuntimeError(
            f"{len(done.failed)} of {done.num_runs} runs failed: {', '.join(done.failed)}; the "
            "page has the reasons"
        )


def _listener(display: "Display") -> "Listener":
    """Passes on to the display what the runs do; each that ends is a row of a table."""
    from treefold.lab.cli.watching import watch
    from treefold.lab.experiments import Listener

    def title(experiment: "Experiment", seed: int) -> str:
        return f"{experiment.aggregator.name} seed {seed}"

    def begins(experiment: "Experiment", seed: int) -> "Watcher":
        return watch(display, title(experiment, seed), experiment)

    head = iter([_HEAD])

    def ends(experiment: "Experiment", seed: int, record: "Record") -> None:
        display.close(title(experiment, seed))
        for line in (*head, _row(experiment, seed, record)):
            display.say(line)

    return Listener(begins, ends)


_HEAD = (
    f"{'aggregator':26}{'seed':>4}{'validation':>12}{'test':>10}{'s per epoch':>13}{'epochs':>8}"
)


def _row(experiment: "Experiment", seed: int, record: "Record") -> str:
    """A finished run as a row below `_HEAD`."""
    start = f"{experiment.aggregator.name:26}{seed:4}"
    if record.status != "finished":
        return f"{start}  failed: {record.error}"
    metric = experiment.task.facts["metric"]
    scores = (record.metrics[f"{metric}@{split}"] for split in ("val", "test"))
    validation, test = (f"{score:.3f}" for score in scores)
    seconds = f"{record.metrics['seconds_per_epoch']:.3g}"
    return f"{start}{validation:>12}{test:>10}{seconds:>13}{record.epochs:>8}"


def _in_words(dataset: "Dataset") -> str:
    facts = dataset.facts()
    answers = ", ".join(f"{count:,} {name}" for name, count in facts["answers"].items())
    return (
        f"{dataset.name}: {facts['kind']} of {facts['level']}s, scored by {facts['metric']}; "
        f"{facts['num_graphs']:,} graphs, {facts['num_nodes']:,} nodes, {facts['num_edges']:,} "
        f"edges; {answers}. {' '.join(dataset.notes)}"
    )
