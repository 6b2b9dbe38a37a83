"""One run and its record: train, evaluate, write down what was done and what came of it.

A run folder holds `record.json`, `metrics.csv` and `checkpoints/`. Whatever stops a run, calling
`run` again on its folder goes on from the last checkpoint with the numbers it would have had.
"""

import dataclasses
import logging
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from treefold.atomic import StorageError, check_writable, remove_leftovers
from treefold.lab.experiments.build import require_aggregator, routine_of
from treefold.lab.experiments.machine import as_override, on_machine
from treefold.lab.experiments.recipe import Experiment
from treefold.lab.experiments.trainer import CHECKPOINTS, Trainer, Watcher
from treefold.lab.runs import (
    Record,
    Status,
    Stopped,
    StopRequest,
    World,
    as_json,
    commit,
    found_record,
    locked,
    stop_on_signals,
)

_log = logging.getLogger("treefold")


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
    elsewhere: bool = False,
) -> Record:
    """Train to the end, or go on with the run that is already in `folder`; gives its record.

    `stop` is asked where somebody listens to signals already. `elsewhere` lets a run go on with
    another number of processes than it was begun with; its record then says so.
    """
    require_aggregator(experiment)
    routine_of(experiment, seed).require_data()
    opened = partial(
        open_record,
        *(experiment, preset, seed, folder, overrides or {}),
        machine=world.described(),
        elsewhere=elsewhere,
    )

    def prepare() -> None:
        check_writable(folder)
        held.enter_context(locked(folder))
        check_writable(folder / CHECKPOINTS)
        for place in (folder, folder / CHECKPOINTS):
            remove_leftovers(place)
        opened()

    with ExitStack() as held:
        asked = held.enter_context(stop_on_signals()) if stop is None else stop
        world.first(prepare)
        record = opened()
        if record.status == "finished":
            return record
        return _go_on(record, experiment, folder, world, watcher or Watcher(), asked)


def _go_on(
    record: Record,
    experiment: Experiment,
    folder: Path,
    world: World,
    watcher: Watcher,
    stop: StopRequest,
) -> Record:
    """Train and evaluate; however that ends, the record says it."""
    trainer: Trainer | None = None

    def close(status: Status, error: str | None = None, **entries: Any) -> Record:
        if trainer is not None:
            epochs = len(trainer.log.read(folder)) if world.rank == 0 else 0
            entries |= {"seconds": trainer.standing.seconds, "epochs": epochs}
        # The error is not that of an earlier stop.
        closed = dataclasses.replace(record, status=status, error=error, **entries)
        if world.rank == 0:
            closed.write(folder)
        return closed

    try:
        trainer = Trainer(experiment, record.seed, folder, world)
        trainer.train(watcher, stop)
        metrics = trainer.evaluate(watcher, stop)
        if commit() != record.commit:  # begun with other code
            metrics["evaluation_commit"] = commit()
        return close("finished", metrics=metrics)
    except Stopped as stopped:
        close("stopped", error=str(stopped))
        raise
    except KeyboardInterrupt:
        close("stopped", error="interrupted for the second time, before it could save")
        raise
    except Exception as error:
        with suppress(StorageError, ValueError):  # the error itself is what matters
            close("failed", error=str(error) or type(error).__name__)
        raise
    finally:
        if trainer is not None:
            trainer.close()


def open_record(
    experiment: Experiment,
    preset: str,
    seed: int,
    folder: Path,
    overrides: dict[str, Any],
    *,
    machine: dict[str, Any] | None = None,
    elsewhere: bool = False,
) -> Record:
    """The record of the run in `folder`, begun anew if there is none, or a damaged one."""
    machine = machine or {}
    if found := found_record(folder):
        recipe = as_json(experiment.recipe())
        if (_trained(found.recipe), found.seed) != (_trained(recipe), seed):
            raise ValueError(
                f"{folder} holds another run, {found.name} with seed {found.seed}, or another "
                "recipe; give another --out, or remove it"
            )
        found = on_machine(found, machine, folder, elsewhere)
        if found.recipe == recipe:
            return found
        return dataclasses.replace(found, recipe=recipe, status="running")  # to evaluate anew
    record = dataclasses.replace(
        Record.begun(experiment.name, preset, seed, experiment.recipe()),
        overrides={**overrides, **as_override(machine)},
        reported={key: dataclasses.asdict(value) for key, value in experiment.reported.items()},
        departures=[*experiment.departures, *routine_of(experiment, seed).data_departures()],
        machine=machine,
    )
    record.write(folder)
    return record


def _trained(recipe: dict[str, Any]) -> dict[str, Any]:
    """What of a recipe decides the parameters."""
    return {part: entries for part, entries in recipe.items() if part != "evaluation"}
