"""`treefold bench`: the time of an epoch, for every row and size."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from treefold.atomic import check_writable
from treefold.lab.cli.commands import variant_name, world_of
from treefold.lab.experiments import (
    REPORTED_SECONDS,
    find_experiment,
    override,
    parse_sizes,
    time_experiment,
)
from treefold.lab.runs import World

if TYPE_CHECKING:
    from treefold.lab.cli.options import Machine


def bench_rows(
    sizes: str,
    rows: str | None,
    fraction: float,
    preset: str,
    assignments: list[str],
    out: Path,
    machine: "Machine",
) -> None:
    """Time an epoch for every row and size, print a table, leave a record each."""
    if not 0 < fraction <= 1:
        raise ValueError(f"--fraction is {fraction:g}; expected more than 0 and at most 1")
    check_writable(out)
    wanted = parse_sizes(sizes)
    experiments = find_experiment("second-minimum", preset)
    if rows is not None:
        experiments = [
            find_experiment(f"second-minimum/{row}", preset)[0] for row in rows.split(",")
        ]
    world = world_of(machine)
    _show(world, "seconds per epoch  " + "".join(f"{f'n = {size}':>12}" for size in wanted))
    changed = [override(experiment, assignments) for experiment in experiments]
    for experiment, overrides in changed:
        row = experiment.name.partition("/")[2]
        experiment = replace(experiment, reported=REPORTED_SECONDS.get(row, {}))
        if world.size > 1:
            overrides["processes"] = world.size
        record = time_experiment(experiment, preset, overrides, wanted, fraction, world)
        if world.rank == 0:
            several = [f"processes={world.size}"] if world.size > 1 else []
            name = variant_name(preset, [*assignments, *several], world.precision)
            folder = out / record.name / name
            folder.mkdir(parents=True, exist_ok=True)
            record.write(folder)
        by_size = record.metrics["seconds_per_epoch_by_size"]
        means = [sum(by_size[str(size)]) / len(by_size[str(size)]) for size in wanted]
        _show(world, f"{row:>17}  " + "".join(f"{mean:12.1f}" for mean in means))


def _show(world: World, line: str) -> None:
    """Print a line once, however many processes there are."""
    if world.rank == 0:
        print(line, flush=True)
