"""Another number of epochs for a run that has begun: it is trained for longer, or ends sooner."""

import dataclasses
from pathlib import Path

from treefold.checkpoints import CheckpointStore
from treefold.lab.experiments.catalogue import FAMILIES, find_experiment
from treefold.lab.experiments.loading import experiment_of
from treefold.lab.experiments.recipe import OPEN_ENDED, Experiment
from treefold.lab.experiments.trainer import CHECKPOINTS
from treefold.lab.runs import Record, as_json, locked

_EPOCHS = "training.epochs"


def replan(folder: Path, epochs: int) -> None:
    """Let the record of a run plan `epochs` epochs; `run` then resumes it, or ends it.

    It becomes the run that a plan of so many epochs would have given, which is why the schedule
    must not depend on their number.
    """
    with locked(folder):
        record = Record.read(folder)
        experiment = experiment_of(record)
        training = experiment.training
        if epochs == training.epochs:
            return
        if training.epochs is None:
            raise ValueError(
                f"{folder} has a budget of {training.seconds:g} seconds, not of epochs; train it "
                "again with another --out"
            )
        if training.schedule not in OPEN_ENDED:
            changes = {**record.overrides, _EPOCHS: epochs}
            sets = "".join(f" --set {key}={value}" for key, value in changes.items())
            raise ValueError(
                f"{folder} cannot be trained for {epochs} epochs instead of {training.epochs}: its "
                f"learning rate follows {training.schedule}, planned over all epochs from the "
                f"first on. Begin a new run of {epochs}: `treefold train {record.name} --preset "
                f"{record.preset} --seed {record.seed}{sets}`; with --set "
                "training.schedule=constant it could be resumed for longer. Without --epochs, "
                "resume finishes this one"
            )
        begun = _epochs_begun(folder)
        if epochs < begun:
            raise ValueError(
                f"{folder} has begun epoch {begun}, and {epochs} epochs are asked for; expected "
                f"{begun} or more"
            )
        planned = dataclasses.replace(
            experiment, training=dataclasses.replace(training, epochs=epochs)
        )
        _replanned(record, planned).write(folder)


def _epochs_begun(folder: Path) -> int:
    checkpoint = CheckpointStore(folder / CHECKPOINTS, "last").load()
    return 1 if checkpoint is None else int(checkpoint.state["progress"]["epoch"])


def _replanned(record: Record, planned: Experiment) -> Record:
    """The record of a run to resume, with every entry about epochs brought up to date."""
    epochs, others = planned.training.epochs, dict(record.overrides)
    begun = dataclasses.replace(
        record, recipe=as_json(planned.recipe()), status="running", error=None
    )
    if planned.task.name in FAMILIES["your graphs"].tasks:  # with a budget, no preset
        return dataclasses.replace(begun, preset="1 epoch" if epochs == 1 else f"{epochs} epochs")
    others.pop(_EPOCHS, None)
    (preset,) = find_experiment(record.name, record.preset)
    departures = [words for words in record.departures if not _is_of_epochs(words)]
    departures += filter(_is_of_epochs, preset.restate(planned).departures)
    return dataclasses.replace(
        begun,
        overrides=others if epochs == preset.training.epochs else {**others, _EPOCHS: epochs},
        departures=departures,
    )


def _is_of_epochs(departure: str) -> bool:
    return departure.startswith(f"{_EPOCHS} is ")
