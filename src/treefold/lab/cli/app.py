"""`treefold`, the command: every subcommand with its options; the work is done elsewhere."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from treefold.lab.cli.benchmarking import bench
from treefold.lab.cli.comparing import compare
from treefold.lab.cli.data_app import data_app
from treefold.lab.cli.demo import demo
from treefold.lab.cli.errors import as_one_line, in_one_line
from treefold.lab.cli.listing import list_
from treefold.lab.cli.options import (
    HERE,
    Assignments,
    Data,
    Debug,
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
app.command(list_, name="list")


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
    recipe: Annotated[
        str, Parameter(help="EXPERIMENT, EXPERIMENT/ROW, or a manifest: FILE.toml with [[runs]].")
    ],
    *,
    preset: Preset = "quick",
    seeds: Annotated[int | None, Parameter(help="Their number; the preset's if none.")] = None,
    out: Out = Path("runs"),
    results: Annotated[
        Path | None,
        Parameter(help="Gets the record and log of each finished run; what is there is skipped."),
    ] = None,
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

    Finished runs are skipped, stopped and failed ones resume from their last checkpoint. An entry
    of a manifest has rows, and may have preset, seeds (a list of numbers), set, device and
    precision; the options of this command are used for the rest.
    """
    with as_one_line(debug):
        from treefold.lab.cli.manifest import Entry, entries_of
        from treefold.lab.cli.sweeping import sweep_rows

        use_data(data)
        usual = Entry((), preset, seeds, tuple(set_ or ()), device, precision)
        sweep_rows(entries_of(recipe, usual), out, workers, slurm, results)


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
def export(
    run: RunPath,
    folder: Annotated[Path | None, Parameter(help="Gets config.json, model.safetensors.")] = None,
    *,
    push_to_hub: Annotated[str | None, Parameter(help="A hub repository: me/model.")] = None,
    debug: Debug = False,
) -> None:
    """Save a run's network as a folder that fold, evaluate and laws take, or push it to the hub."""
    with as_one_line(debug):
        from treefold.lab.cli.commands import export_run

        export_run(run, folder, push_to_hub)


@app.command
def certify(
    run: Annotated[
        Path | None, Parameter(help="The folder of a run, a checkpoint in it, or trained/parity.")
    ] = None,
    *,
    grade: Annotated[str, Parameter(help="tree, or stream for lists alone.")] = "tree",
    limit: Annotated[int, Parameter(help="Of reachable states.")] = 60_000,
    out: Annotated[
        Path | None,
        Parameter(
            help="The file to write; in the run's folder, or for trained/... here, if not given."
        ),
    ] = None,
    monoid: Annotated[
        Path | None, Parameter(help="A folder for the monoid itself, to run by look-up.")
    ] = None,
    verify: Annotated[
        Path | None,
        Parameter(help="A certificate to check again, of RUN or else of the run it lies in."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Prove that a run's finite states answer every set rightly, or show which they do not."""
    with as_one_line(debug):
        from treefold.lab.cli.certifying import certify_run, verify_certificate

        if verify is not None:
            verify_certificate(verify, verify.parent if run is None else run)
        elif run is None:
            raise ValueError("no run was given; expected the folder of one, or --verify FILE")
        else:
            print(certify_run(run, grade, limit, out, monoid))


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
    out: Annotated[Path | None, Parameter(help="For the page; RUNS/report if not given.")] = None,
    debug: Debug = False,
) -> None:
    """Write a page from all records below a folder, and print its table."""
    with as_one_line(debug):
        from treefold.lab.report import write_report

        write_report(runs, out or runs / "report")


app.command(bench)
app.command(compare)
app.command(demo)


@app.command(name="compile-kernels")
def compile_() -> None:
    """Compile the folds for this machine, which their first use would do; prints where they are."""
    from treefold.operators import CannotBuild, compile_kernels

    try:
        print(compile_kernels())
    except CannotBuild as error:
        print(f"folds run in plain torch: {error}", file=sys.stderr)
        sys.exit(1)


app.command(data_app)
