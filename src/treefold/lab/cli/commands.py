"""The commands on single runs: train, resume, evaluate, laws. Imported when one is called."""

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from treefold.aggr import LCMAggregation
from treefold.algebra import law_report
from treefold.cores import num_cores
from treefold.finite import FiniteMonoid, check
from treefold.fold import Groups
from treefold.lab.cli.display import choose_display
from treefold.lab.cli.watching import watch
from treefold.lab.experiments import (
    experiment_of,
    find_experiment,
    model_at,
    names_checkpoint,
    override,
    replan,
    run,
    run_of,
    runner_of,
    save_run,
    saved_model,
    states_of_layer,
    states_of_network,
)
from treefold.lab.runs import (
    FULL,
    Record,
    World,
    inputs_of,
    laws_of,
    sound_record,
    states_of,
    stop_on_signals,
    under_torchrun,
)
from treefold.operators import Operator
from treefold.saving import push

if TYPE_CHECKING:
    from treefold.lab.cli.options import Machine

CPU = torch.device("cpu")
MOST_SEEDS = 1 << 43
"""Every part of the data has a generator of its own, whose number takes 20 bits more."""
_NEEDS_QUOTES = re.compile(r"[^A-Za-z0-9._=+-]+")
LONGEST_NAME = 200
"""In bytes; file systems take 255, and a manifest's name is longer than a folder's."""


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
    checked_seed(seed)
    world = world_of(machine)
    threads = torch.get_num_threads()
    with (
        choose_display(json_lines, silent=world.rank > 0) as display,
        stop_on_signals() as stop,  # between two rows as well
    ):
        for experiment, overrides in changed:
            folder = run_folder(out, experiment.name, preset, seed, assignments, world.precision)
            torch.set_num_threads(_threads_of(folder, machine) or threads)
            record = run(
                experiment,
                preset=preset,
                seed=seed,
                folder=folder,
                world=world,
                overrides=overrides,
                watcher=watch(display, experiment.name, experiment),
                stop=stop,
            )
            display.finish(experiment.name, f"{in_short(record)} in {folder}")


def _threads_of(folder: Path, machine: "Machine") -> int | None:
    """The number of threads of the run that is there, if no other number is asked for."""
    record = None if _asks_for_threads(machine) else sound_record(folder)
    return None if record is None else record.machine.get("threads")


def resume_run(folder: Path, machine: "Machine", epochs: int | None = None) -> None:
    """Resume a run from its record; until it has had `epochs`, if given."""
    if names_checkpoint(folder):
        raise ValueError(
            f"{folder} is one checkpoint, but a run is resumed from its last one; give its folder, "
            f"{run_of(folder)}"
        )
    folder = run_of(folder)
    record = Record.read(folder)
    world = world_of(machine, record.machine)
    if epochs is not None:
        world.first(lambda: replan(folder, epochs))
        record = Record.read(folder)
    experiment = experiment_of(record)
    with choose_display(json_lines=False, silent=world.rank > 0) as display:
        watcher = watch(display, record.name, experiment)
        record = run(
            experiment,
            preset=record.preset,
            seed=record.seed,
            folder=folder,
            world=world,
            watcher=watcher,
            other_processes=True,
        )
        display.finish(record.name, f"{in_short(record)} in {folder}")


def evaluate_run(path: Path, sizes: str | None, seed: int | None, machine: "Machine") -> None:
    """Score a checkpoint, the best if none is named: a line per size, or other case of the task."""
    record = Record.read(run_of(path))
    experiment = experiment_of(record)
    runner = runner_of(experiment, record.seed if seed is None else checked_seed(seed))
    wanted = runner.cases(sizes)
    begun = {name: value for name, value in record.machine.items() if name == "precision"}
    model = model_at(path, runner)
    world = world_of(machine, begun)
    placed = world.place(model)
    scores = {}
    for case in wanted:
        with torch.no_grad():
            scores[case] = runner.score(placed, case, world.device)
        label, value = runner.shown(case, scores[case]).values()
        print(f"{label:>8}  {value:.4f}", flush=True)
    for name, value in runner.metrics(scores).items():
        if "@" in name:
            print(f"{name}  {value:.4f}")


def print_laws(path: Path, num_draws: int) -> None:
    """Print a law report on states that the run's operator meets on validation data.

    Those of a saved model without a task are folds of 1 to 16 normal rows; of a finite monoid, all.
    """
    if (saved := saved_model(path)) is not None:
        _print_laws_of(saved, num_draws)
        return
    record = Record.read(run_of(path))
    experiment = experiment_of(record)
    runner = runner_of(experiment, record.seed)
    # In float32 whatever it was trained in: what is asked is how far the operator itself is off.
    model = model_at(path, runner).float()
    with torch.no_grad():
        folded = [each for each in runner.folded(model, CPU) if laws_of(each.aggregator)[0]]
    if not folded:
        raise ValueError(f"{record.name} learns no operator; its laws hold or not by definition")
    for number, each in enumerate(folded, start=1):
        laws, op = laws_of(each.aggregator)
        generator = torch.Generator().manual_seed(0)
        states, inputs = states_of(*each), inputs_of(each.rows, each.groups)
        if len(folded) > 1:
            print(f"layer {number}")
        print(law_report(op, states, laws, num_draws=num_draws, generator=generator, inputs=inputs))
        finite = states_of_network(model) or states_of_layer(each)
        print(finite or "", end="\n" if finite else "")


def _print_laws_of(model: object, num_draws: int) -> None:
    """The laws of a model that was saved on its own."""
    if isinstance(model, FiniteMonoid):
        print(check(model))
        return
    if not isinstance(model, LCMAggregation):
        model = LCMAggregation(cast(Operator, model).channels, cast(Operator, model))
    generator = torch.Generator().manual_seed(0)
    groups = Groups.from_sizes(torch.arange(256) % 16 + 1)
    rows = torch.randn(groups.num_rows, model.in_channels, generator=generator)
    states = states_of(model.float(), rows, groups)
    print(law_report(model.operator, states, num_draws=num_draws, generator=generator))


def export_run(path: Path, folder: Path | None, push_to_hub: str | None) -> None:
    """Save a run's network to a folder, or to a repository of the hub."""
    if (folder is None) == (push_to_hub is None):
        raise ValueError("give a folder, or --push-to-hub, a repository such as me/model")
    if folder is not None:
        save_run(path, folder)
    print(folder or push(lambda written: save_run(path, written), str(push_to_hub)))


def world_of(machine: "Machine", begun: dict[str, Any] | None = None) -> World:
    """Processes, devices and threads, as the command line asks, or else as a run was begun."""
    begun = begun or {}
    processes = machine.processes
    if processes is None and not under_torchrun():
        processes = begun.get("processes", 1)
    if processes is not None and processes < 1:
        raise ValueError(f"--processes is {processes}; expected 1 or more")
    threads = machine.threads
    if not _asks_for_threads(machine):
        share = num_cores() // (processes or 1)
        threads = begun.get("threads", max(1, share))
    if threads is not None:
        if threads < 1:
            raise ValueError(f"--threads is {threads}; expected 1 or more")
        torch.set_num_threads(threads)
    device, precision = (
        getattr(machine, name) or begun.get(name, usual)
        for name, usual in (("device", "cpu"), ("precision", FULL))
    )
    return World(device, precision, processes)


def _asks_for_threads(machine: "Machine") -> bool:
    """True if the number of threads is given by an option or the environment."""
    return machine.threads is not None or "OMP_NUM_THREADS" in os.environ


def checked_seed(seed: int) -> int:
    """The seed, or a ValueError if generators do not take it."""
    if not 0 <= seed < MOST_SEEDS:
        raise ValueError(f"--seed is {seed}; expected 0 or more, and less than 2^43")
    return seed


def run_folder(
    out: Path,
    name: str,
    preset: str,
    seed: int,
    assignments: list[str],
    precision: str = FULL,
) -> Path:
    """The folder of a run: overrides are part of its name, and so is an unusual precision."""
    changes = [*assignments, *([] if precision == FULL else [f"precision={precision}"])]
    earlier = out / name / _earlier_name(preset, changes) / f"seed-{seed}"
    found = out / name / variant_name(preset, assignments, precision) / f"seed-{seed}"
    return earlier if earlier.is_dir() and not found.exists() else found


def variant_name(preset: str, assignments: list[str], precision: str = FULL) -> str:
    """A preset with overrides as a name that needs no quotes in a shell.

    Long names, and those in which characters had to be replaced, end in a digest of the overrides.
    """
    changes = [*assignments, *([] if precision == FULL else [f"precision={precision}"])]
    exact = "+".join([preset, *sorted(changes)])
    name = _NEEDS_QUOTES.sub("_", exact)
    if name == exact and len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 13]}-{hashlib.sha256(exact.encode()).hexdigest()[:12]}"


def _earlier_name(preset: str, changes: list[str]) -> str:
    """The name with commas that earlier versions gave: runs that are there are found by it."""
    name = preset + "".join(f",{item.replace('/', '_')}" for item in sorted(changes))
    if len(name.encode()) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    start = name.encode()[: LONGEST_NAME - len(digest) - 1].decode(errors="ignore")
    return f"{start},{digest}"


def in_short(record: Record) -> str:
    """A record's main numbers in a line."""
    numbers = [f"{key} {value:.3f}" for key, value in record.metrics.items() if "@" in key]
    return f"{'  '.join(numbers)}  ({record.epochs} epochs, {record.seconds:.0f} s)"
