"""One run and its record: train, evaluate, write down what was done and what came of it.

A run folder holds `record.json`, `metrics.csv` and `checkpoints/`. Whatever stops a run, calling
`run` again on its folder goes on from the last checkpoint with the numbers it would have had.
"""

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

from treefold.experiments.build import routine_of
from treefold.experiments.recipe import Experiment
from treefold.experiments.trainer import CHECKPOINTS, Stopped, Trainer, Watcher
from treefold.records import Record, StorageError, check_writable, remove_leftovers
from treefold.records.provenance import commit, hardware, versions
from treefold.records.record import FILE_NAME
from treefold.training.fit import NonFinite
from treefold.training.signals import stop_on_signals
from treefold.training.world import World


def run(
    experiment: Experiment,
    *,
    preset: str,
    seed: int,
    folder: Path,
    world: World,
    overrides: dict[str, Any] | None = None,
    watcher: Watcher | None = None,
) -> Record:
    """Train to the end, or go on with the run that is already in `folder`; gives its record."""
    routine_of(experiment, seed).require_data()
    if world.rank == 0:
        for place in (folder, folder / CHECKPOINTS):
            check_writable(place)
            remove_leftovers(place)
        open_record(experiment, preset, seed, folder, overrides or {})
    world.wait()
    record = open_record(experiment, preset, seed, folder, overrides or {})
    if record.status == "finished":
        return record
    watcher = watcher or Watcher()
    trainer = Trainer(experiment, seed, folder, world)

    def close(status: Any, error: str | None = None, **entries: Any) -> Record:
        epochs = len(trainer.log.read(folder)) if world.rank == 0 else 0
        closed = dataclasses.replace(
            record,
            status=status,
            error=error,  # not that of an earlier stop
            seconds=trainer.standing.seconds,
            epochs=epochs,
            **entries,
        )
        if world.rank == 0:
            closed.write(folder)
        return closed

    try:
        with stop_on_signals() as stop:
            trainer.train(watcher, stop)
        metrics = trainer.evaluate(watcher)
        if commit() != record.commit:  # begun with other code
            metrics["evaluation_commit"] = commit()
        return close("finished", metrics=metrics)
    except Stopped as stopped:
        close("stopped", error=str(stopped))
        raise
    except (NonFinite, StorageError) as error:
        close("failed", error=str(error))
        raise
    finally:
        trainer.close()


def open_record(
    experiment: Experiment, preset: str, seed: int, folder: Path, overrides: dict[str, Any]
) -> Record:
    """The record of the run in `folder`, begun anew if there is none."""
    if (folder / FILE_NAME).exists():
        found, recipe = Record.read(folder), as_json(experiment.recipe())
        if (_trained(found.recipe), found.seed) != (_trained(recipe), seed):
            raise ValueError(
                f"{folder} holds another run, {found.name} with seed {found.seed}, or another "
                "recipe; give another --out, or remove it"
            )
        if found.recipe == recipe:
            return found
        return dataclasses.replace(found, recipe=recipe, status="running")  # to evaluate anew
    record = Record(
        name=experiment.name,
        preset=preset,
        seed=seed,
        recipe=as_json(experiment.recipe()),
        overrides=overrides,
        reported={key: dataclasses.asdict(value) for key, value in experiment.reported.items()},
        departures=[*experiment.departures, *routine_of(experiment, seed).data_departures()],
        commit=commit(),
        versions=versions(),
        hardware=hardware(),
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    record.write(folder)
    return record


def _trained(recipe: dict[str, Any]) -> dict[str, Any]:
    """What of a recipe decides the parameters."""
    return {part: entries for part, entries in recipe.items() if part != "evaluation"}


def as_json(recipe: dict[str, Any]) -> dict[str, Any]:
    """The recipe as it will be read back from a record."""
    plain: dict[str, Any] = json.loads(json.dumps(recipe))
    return plain
