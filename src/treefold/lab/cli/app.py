"""`treefold`, the command: every subcommand with its options; the work is done elsewhere."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from treefold.lab.cli.data_app import data_app
from treefold.lab.cli.errors import as_one_line, in_one_line
from treefold.lab.cli.options import (
    HERE,
    Assignments,
    Data,
    Debug,
    Machine,
    Out,
    Preset,
    Recipe,
    RunFolder,
    RunPath,
    Where,
    use_data,
)

app = App(
    name="treefold",
    help="Learnable commutative monoids: train them, check their laws, report on them.",
    version_flags=["--version"],
    error_formatter=in_one_line,
)


@app.command(name="list")
def list_() -> None:
    """Name all experiments, their rows, the presets and the aggregators."""
    from treefold.lab.cli.listing import list_everything

    list_everything()


@app.command
def train(
    recipe: Recipe,
    *,
    preset: Preset = "quick",
    seed: Annotated[int, Parameter(help="Of data, weights and order.")] = 0,
    out: Out = Path("runs"),
    set_: Assignments = None,
    data: Data = None,
    machine: Where = HERE,
    json_lines: Annotated[bool, Parameter(help="Print events as lines of JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Train one row, such as second-minimum/binary-gru, or resume it; leaves a record.

    With the name of a whole experiment, trains its rows one after the other. Prints the folder of
    each run.
    """
    with as_one_line(debug):
        from treefold.lab.cli.commands import train_rows

        use_data(data)
        train_rows(recipe, preset, seed, out, set_ or [], machine, json_lines)


@app.command
def sweep(
    recipe: Recipe,
    *,
    preset: Preset = "quick",
    seeds: Annotated[
        int | None, Parameter(help="How many; the preset's number if not given.")
    ] = None,
    out: Out = Path("runs"),
    set_: Assignments = None,
    data: Data = None,
    workers: Annotated[
        int | None, Parameter(help="Runs at once; one per core if not given.")
    ] = None,
    slurm: Annotated[
        list[str] | None,
        Parameter(negative=(), help="Submit to SLURM, with parameters such as partition=gpu."),
    ] = None,
    device: Annotated[str, Parameter(help="Of every run: cpu, cuda, mps or auto.")] = "cpu",
    precision: Annotated[str, Parameter(help="Of every run, as for train.")] = "32-true",
    debug: Debug = False,
) -> None:
    """Train every row of an experiment with several seeds, several at once, one thread each.

    Finished runs are skipped, stopped and failed ones resume from their last checkpoint.
    """
    with as_one_line(debug):
        from treefold.lab.cli.sweeping import sweep_rows

        use_data(data)
        where = Machine(device, precision)
        sweep_rows(recipe, preset, seeds, out, set_ or [], workers, slurm, where)


@app.command
def resume(
    run: RunFolder,
    *,
    epochs: Annotated[
        int | None,
        Parameter(
            help="The total, more or fewer than planned; for learning rates that do not depend "
            "on it."
        ),
    ] = None,
    data: Data = None,
    machine: Where = HERE,
    debug: Debug = False,
) -> None:
    """Resume a run that was stopped, from its folder alone, or train it for longer than planned.

    Device, precision, processes and threads are those it was begun with, if not given. A run of
    `treefold compare` reads its graphs again, from the same folder as then: a Python file is run,
    if it has not changed.
    """
    with as_one_line(debug):
        from treefold.lab.cli.commands import resume_run

        use_data(data)
        resume_run(run, machine, epochs)


@app.command
def evaluate(
    run: RunPath,
    *,
    sizes: Annotated[
        str | None,
        Parameter(
            help="Set sizes, such as 1-16,32,1000, or balanced:16,200 for sets whose answers are "
            "distributed evenly, or splits of graphs: test."
        ),
    ] = None,
    seed: Annotated[
        int | None, Parameter(help="Of the evaluation sets; the run's own if not given.")
    ] = None,
    data: Data = None,
    machine: Where = HERE,
    debug: Debug = False,
) -> None:
    """Score a run on sets of given sizes, or on splits of graphs: its best checkpoint, or one."""
    with as_one_line(debug):
        from treefold.lab.cli.commands import evaluate_run

        use_data(data)
        evaluate_run(run, sizes, seed, machine)


@app.command
def laws(
    run: RunPath,
    *,
    num_draws: Annotated[int, Parameter(help="Of elements, for each law.")] = 1024,
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Print how far a run's learned operator is from the laws of a commutative monoid."""
    with as_one_line(debug):
        from treefold.lab.cli.commands import print_laws

        use_data(data)
        print_laws(run, num_draws)


@app.command
def certify(
    run: Annotated[
        Path | None, Parameter(help="The folder of a run, or one checkpoint in it.")
    ] = None,
    *,
    grade: Annotated[str, Parameter(help="tree, or stream for lists alone.")] = "tree",
    limit: Annotated[int, Parameter(help="Of reachable states.")] = 60_000,
    out: Annotated[
        Path | None, Parameter(help="The file to write; in the run's folder if not given.")
    ] = None,
    verify: Annotated[
        Path | None, Parameter(help="A certificate to check again, of the run it lies in.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Prove that a run's finite states answer every set rightly, or show which they do not."""
    with as_one_line(debug):
        from treefold.lab.cli.commands import certify_run, verify_certificate

        if verify is not None:
            verify_certificate(verify, verify.parent if run is None else run)
        elif run is None:
            raise ValueError("no run was given; expected the folder of one, or --verify FILE")
        else:
            print(certify_run(run, grade, limit, out))


@app.command
def fold(
    model: RunPath,
    source: Annotated[Path, Parameter(help="A Parquet file, or a folder of them.")],
    *,
    key: Annotated[str, Parameter(help="The column to group by.")],
    on: Annotated[str, Parameter(help="The column to fold: what the model takes.")],
    out: Annotated[Path, Parameter(help="The Parquet file to write, a row per key.")],
    decode: Annotated[bool, Parameter(help="Add the model's answer for each key.")] = False,
    states: Annotated[
        bool, Parameter(help="The column holds states that the model has made before.")
    ] = False,
    overwrite: Annotated[bool, Parameter(help="Replace --out if it is there.")] = False,
    memory: Annotated[
        str, Parameter(help="For rows and states, on this machine; the rest goes to disk.")
    ] = "1GB",
    address: Annotated[
        str | None, Parameter(help="Of a Ray cluster; this machine if not given.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Fold a table by key with a trained model: on all cores of this machine, or on Ray.

    Rows that are null, NaN, out of range or of the wrong width are counted, and named in a file
    next to the result.
    """
    with as_one_line(debug):
        from treefold.lab.cli.folding import fold_file

        fold_file(
            model,
            source,
            out,
            memory,
            key=key,
            on=on,
            decode=decode,
            states=states,
            overwrite=overwrite,
            address=address,
        )


@app.command
def report(
    runs: Annotated[Path, Parameter(help="A folder with run folders somewhere in it.")] = Path(
        "runs"
    ),
    *,
    out: Annotated[
        Path | None, Parameter(help="Where the page goes; RUNS/report if not given.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Write a page from all records below a folder, and print its table."""
    with as_one_line(debug):
        from treefold.lab.report import write_report

        write_report(runs, out or runs / "report")


@app.command
def bench(
    *,
    sizes: Annotated[str, Parameter(help="Set sizes, such as 20,60,200.")] = "20,60,100,200",
    rows: Annotated[str | None, Parameter(help="Aggregators, by comma; all if not given.")] = None,
    fraction: Annotated[
        float, Parameter(help="Of an epoch that is really run, then scaled.")
    ] = 0.02,
    preset: Annotated[str, Parameter(help="Whose recipe, such as how laws are sampled.")] = "paper",
    set_: Assignments = None,
    out: Out = Path("runs"),
    machine: Where = HERE,
    debug: Debug = False,
) -> None:
    """Time an epoch of 2nd-minimum training for sets of given sizes, the paper's by default."""
    with as_one_line(debug):
        from treefold.lab.cli.benchmarking import bench_rows

        bench_rows(sizes, rows, fraction, preset, set_ or [], out, machine)


@app.command
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
    out: Annotated[
        Path | None, Parameter(help="For runs and page; runs/compare/NAME if not given.")
    ] = None,
    machine: Where = HERE,
    debug: Debug = False,
) -> None:
    """Compare aggregators on your own graphs: which to pick, and why.

    Every aggregator sits in the same small GNN and gets the same budget. The problem is inferred
    from y: of nodes or of graphs; whole numbers are classes, floats are numbers. Splits are
    train_mask, val_mask and test_mask, or random. Ends with a page of scores, times, memory and law
    violations. The same command resumes where it was stopped, and skips finished runs; evaluate,
    laws and resume take their folders. A Python file is run: give only one that you trust.
    """
    with as_one_line(debug):
        from treefold.lab.cli.comparing import compare_aggregators
        from treefold.lab.compare import EPOCHS, Budget, Plan, SmallModel, parse_aggregators

        if epochs is None and seconds is None:
            epochs = EPOCHS
        budget = Budget(epochs, seconds, batch_size, learning_rate)
        model = SmallModel(channels, layers)

        def plan() -> Plan:
            return Plan(parse_aggregators(aggregators), seeds, budget, model)

        compare_aggregators(dataset, data, task, metric, plan, out, machine)


@app.command(name="compile-kernels")
def compile_kernels() -> None:
    """Compile the folds for this machine, which their first use would do; prints where they are."""
    from treefold.lab.cli.compiling import compile_folds

    compile_folds()


app.command(data_app)
