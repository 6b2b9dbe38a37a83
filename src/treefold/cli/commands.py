"""What the commands on single runs do. Imported only when one of them is called: it needs torch."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from treefold.aggregators import AGGREGATORS
from treefold.algebra import law_report
from treefold.cli.display import choose_display
from treefold.cli.watching import watch
from treefold.experiments.build import routine_of
from treefold.experiments.catalogue import FAMILIES, find_experiment
from treefold.experiments.loading import best_model, experiment_of
from treefold.experiments.overrides import override
from treefold.experiments.run import run
from treefold.experiments.set_routine import parse_sizes as parse_sizes
from treefold.records import Record
from treefold.training.violations import laws_of, states_of
from treefold.training.world import World

if TYPE_CHECKING:
    from treefold.cli.app import Machine


def list_everything() -> None:
    """Print names, ready to be copied into other commands."""
    print("experiments")
    for family in FAMILIES.values():
        for name, experiments in family.experiments.items():
            rows = [row.name.partition("/")[2] for row in experiments("smoke")]
            print(f"  {name}: {', '.join([*rows, *family.extra_rows])}")
    for kind, family in FAMILIES.items():
        print(f"presets for {kind}")
        for name, preset in family.presets.items():
            print(f"  {name}: {preset.about}")
    print(f"aggregators\n  {', '.join(AGGREGATORS)}")


def train_rows(
    recipe: str,
    preset: str,
    seed: int,
    out: Path,
    assignments: list[str],
    machine: "Machine",
    json_lines: bool,
) -> None:
    """Train the rows that a name stands for, one after the other."""
    changed = [override(found, assignments) for found in find_experiment(recipe, preset)]
    world = world_of(machine)
    with choose_display(json_lines, silent=world.rank > 0) as display:
        for experiment, overrides in changed:
            record = run(
                experiment,
                preset=preset,
                seed=seed,
                folder=run_folder(out, experiment.name, preset, seed, assignments),
                world=world,
                overrides=overrides,
                watcher=watch(display, experiment.name, experiment),
            )
            display.finish(experiment.name, in_short(record))


def resume_run(folder: Path, machine: "Machine") -> None:
    """Go on with a run, from what its record says."""
    record = Record.read(folder)
    experiment = experiment_of(record)
    world = world_of(machine)
    with choose_display(json_lines=False, silent=world.rank > 0) as display:
        watcher = watch(display, record.name, experiment)
        record = run(
            experiment,
            preset=record.preset,
            seed=record.seed,
            folder=folder,
            world=world,
            watcher=watcher,
        )
        display.finish(record.name, in_short(record))


def evaluate_run(folder: Path, sizes: str | None, seed: int, machine: "Machine") -> None:
    """Score the best checkpoint and print a line per size, or other case of the task."""
    record = Record.read(folder)
    experiment = experiment_of(record)
    routine = routine_of(experiment, record.seed if seed < 0 else seed)
    wanted = routine.cases(sizes)
    model = best_model(folder, experiment)
    world_of(machine)
    scores = {}
    for case in wanted:
        with torch.no_grad():
            scores[case] = routine.score(model, case, torch.device("cpu"))
        label, value = routine.shown(case, scores[case]).values()
        print(f"{label:>8}  {value:.4f}", flush=True)
    for name, value in routine.metrics(scores).items():
        if "@" in name:
            print(f"{name}  {value:.4f}")


def print_laws(folder: Path, num_draws: int) -> None:
    """Print a law report on states that the run's operator really meets."""
    record = Record.read(folder)
    experiment = experiment_of(record)
    model = best_model(folder, experiment)
    with torch.no_grad():
        folded = routine_of(experiment, record.seed).folded(model, torch.device("cpu"))
    if folded is None or not laws_of(folded.aggregator)[0]:
        raise ValueError(f"{record.name} learns no operator; its laws hold or not by definition")
    laws, op = laws_of(folded.aggregator)
    generator = torch.Generator().manual_seed(0)
    states = states_of(*folded)
    print(law_report(op, states, laws, num_draws=num_draws, generator=generator))


def world_of(machine: "Machine") -> World:
    """Processes, devices and threads, as the command line asks."""
    if machine.threads is not None:
        torch.set_num_threads(machine.threads)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // machine.processes))
    return World(machine.device, machine.precision, machine.processes)


def run_folder(out: Path, name: str, preset: str, seed: int, assignments: list[str]) -> Path:
    """Where a run goes: overrides are part of its name."""
    changes = "".join(f",{item.replace('/', '_')}" for item in sorted(assignments))
    return out / name / f"{preset}{changes}" / f"seed-{seed}"


def in_short(record: Record) -> str:
    """A record's main numbers in a line."""
    numbers = [f"{key} {value:.3f}" for key, value in record.metrics.items() if "@" in key]
    return f"{'  '.join(numbers)}  ({record.epochs} epochs, {record.seconds:.0f} s)"
