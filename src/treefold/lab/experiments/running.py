"""One run and its record: train, evaluate, and write down the recipe and the results.

A run folder holds `record.json`, `metrics.csv` and `checkpoints/`. Whatever stops a run, calling
`run` again on its folder resumes from the last checkpoint with the numbers it would have had.
"""

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from treefold.atomic import StorageError, check_writable, remove_leftovers
from treefold.lab.experiments.build import build_model
from treefold.lab.experiments.catalogue import runner_of
from treefold.lab.experiments.machine import as_override, on_machine
from treefold.lab.experiments.recipe import Experiment
from treefold.lab.experiments.task_runner import TaskRunner
from treefold.lab.experiments.trainer import CHECKPOINTS, Trainer, Watcher
from treefold.lab.runs import (
    Record,
    Stopped,
    StopRequest,
    World,
    as_json,
    commit,
    locked,
    set_damaged_aside,
    sound_record,
    stop_on_signals,
)


def run(
    experiment: Experiment,
    *,
    preset: str,
    seed: int,
    folder: Path,
    world: World,
    overrides: dict[str, Any] | None = None,
    watcher: Watcher | None = None,
    stop: StopRequest | None = None,
    other_processes: bool = False,
    runner: TaskRunner | None = None,
) -> Record:
    """Train to the end, or resume the run that is already in `folder`; returns its record.

    `stop` is asked where signals are handled already. With `other_processes` a run may be
    resumed with another number of processes than it was begun with, which its record then notes.
    A `runner` that has its data already is used as it is.
    """
    runner = runner or runner_of(experiment, seed)
    runner.require_data()

    def resumed() -> Record | None:
        return resumable_record(
            experiment, seed, folder, machine=world.described(), other_processes=other_processes
        )

    found = resumed()
    if found is not None and found.status == "finished":
        return found
    torch.manual_seed(seed)
    model = build_model(runner)  # before any file is written: options may be wrong
    with ExitStack() as held:
        asked = held.enter_context(stop_on_signals()) if stop is None else stop
        world.first(lambda: _claim(folder, held))
        record = resumed()
        if record is None:
            world.first(partial(set_damaged_aside, folder))
            record = new_record(runner, preset, overrides or {}, world.described())
            world.first(partial(record.write, folder))
        make_trainer = partial(Trainer, runner, model, folder, world)
        return _finish(record, folder, world, asked, watcher or Watcher(), make_trainer)


def _claim(folder: Path, held: ExitStack) -> None:
    """Lock the folder for this run, and clean up after a killed one."""
    check_writable(folder)
    held.enter_context(locked(folder))
    check_writable(folder / CHECKPOINTS)
    for place in (folder, folder / CHECKPOINTS):
        remove_leftovers(place)


def _finish(
    record: Record,
    folder: Path,
    world: World,
    stop: StopRequest,
    watcher: Watcher,
    make_trainer: Callable[[], Trainer],
) -> Record:
    """Train and evaluate; however that ends, the record has it."""
    trainer: Trainer | None = None

    def close(**entries: Any) -> Record:
        if trainer is not None:
            epochs = len(trainer.log.read(folder)) if world.rank == 0 else 0
            entries |= {"seconds": trainer.standing.seconds, "epochs": epochs}
        # The error is not that of an earlier stop.
        closed = dataclasses.replace(record, **{"error": None, **entries})
        if world.rank == 0:
            closed.write(folder)
        return closed

    try:
        trainer = make_trainer()
        trainer.train(watcher, stop)
        metrics = trainer.evaluate(watcher, stop)
        if commit() != record.commit:  # begun with other code
            metrics["evaluation_commit"] = commit()
        return close(status="finished", metrics=metrics)
    except Stopped as stopped:
        close(status="stopped", error=str(stopped))
        raise
    except KeyboardInterrupt:
        close(status="stopped", error="interrupted for the second time, before it could save")
        raise
    except Exception as error:
        with suppress(StorageError, ValueError):  # the error itself is what matters
            close(status="failed", error=str(error) or type(error).__name__)
        raise
    finally:
        if trainer is not None:
            trainer.close()


def resumable_record(
    experiment: Experiment,
    seed: int,
    folder: Path,
    *,
    machine: dict[str, Any],
    other_processes: bool = False,
) -> Record | None:
    """The record in `folder`, if it is of this run; None if there is none, or a damaged one."""
    found = sound_record(folder)
    if found is None:
        return None
    recipe = as_json(experiment.recipe())
    if (_trained(found.recipe), found.seed) != (_trained(recipe), seed):
        raise ValueError(
            f"{folder} holds another run, {found.name} with seed {found.seed}, or another "
            "recipe; give another --out, or remove it"
        )
    found = on_machine(found, machine, folder, other_processes)
    if found.recipe == recipe:
        return found
    return dataclasses.replace(found, recipe=recipe, status="running")  # to be evaluated again


def new_record(
    runner: TaskRunner, preset: str, overrides: dict[str, Any], machine: dict[str, Any]
) -> Record:
    """The record of a run that begins here and now."""
    experiment = runner.experiment
    return dataclasses.replace(
        Record.begun(experiment.name, preset, runner.seed, experiment.recipe()),
        overrides={**overrides, **as_override(machine)},
        reported={key: dataclasses.asdict(value) for key, value in experiment.reported.items()},
        departures=[*experiment.departures, *runner.data_departures()],
        machine=machine,
    )


def _trained(recipe: dict[str, Any]) -> dict[str, Any]:
    """The parts of a recipe that decide the parameters."""
    return {part: entries for part, entries in recipe.items() if part != "evaluation"}
