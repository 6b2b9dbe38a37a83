"""`treefold bench`: the time of an epoch, for every row and size."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from treefold.lab.cli.errors import as_one_line
from treefold.lab.cli.options import HERE, Assignments, Debug, Out, Where

if TYPE_CHECKING:
    from treefold.lab.experiments import Experiment
    from treefold.lab.runs import Record, World


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
        from treefold.atomic import check_writable
        from treefold.lab.cli.commands import world_of
        from treefold.lab.experiments import override, parse_sizes, time_experiment

        if not 0 < fraction <= 1:
            raise ValueError(f"--fraction is {fraction:g}; expected more than 0 and at most 1")
        check_writable(out)
        wanted, assignments = parse_sizes(sizes), set_ or []
        changed = [override(experiment, assignments) for experiment in _named(rows, preset)]
        changed = [(_with_seconds(experiment), made) for experiment, made in changed]
        world = world_of(machine)
        _show(world, "seconds per epoch  " + "".join(f"{f'n = {size}':>12}" for size in wanted))
        for experiment, overrides in changed:
            if world.size > 1:
                overrides["processes"] = world.size
            record = time_experiment(experiment, preset, overrides, wanted, fraction, world)
            if world.rank == 0:
                _write(record, out, assignments, world)
            by_size = record.metrics["seconds_per_epoch_by_size"]
            means = [sum(by_size[str(size)]) / len(by_size[str(size)]) for size in wanted]
            row = record.name.partition("/")[2]
            _show(world, f"{row:>17}  " + "".join(f"{mean:12.1f}" for mean in means))


def _named(rows: str | None, preset: str) -> Iterator["Experiment"]:
    from treefold.lab.experiments import find_experiment

    names = ["second-minimum"]
    if rows is not None:
        names = [f"second-minimum/{row}" for row in rows.split(",")]
    for name in names:
        yield from find_experiment(name, preset)


def _with_seconds(experiment: "Experiment") -> "Experiment":
    """The experiment with the published seconds of its row in place of scores."""
    from treefold.lab.experiments import REPORTED_SECONDS

    row = experiment.name.partition("/")[2]
    return replace(experiment, reported=REPORTED_SECONDS.get(row, {}))


def _write(record: "Record", out: Path, assignments: list[str], world: "World") -> None:
    from treefold.lab.cli.commands import variant_name

    several = [f"processes={world.size}"] if world.size > 1 else []
    name = variant_name(record.preset, [*assignments, *several], world.precision)
    folder = out / record.name / name
    folder.mkdir(parents=True, exist_ok=True)
    record.write(folder)


def _show(world: "World", line: str) -> None:
    """Print a line once, however many processes there are."""
    if world.rank == 0:
        print(line, flush=True)
