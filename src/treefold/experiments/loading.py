"""From a run's folder back to its trained network."""

from pathlib import Path

from torch import nn

from treefold.checkpoints import CheckpointStore
from treefold.experiments.build import build_model
from treefold.experiments.recipe import Experiment, experiment_from_recipe
from treefold.experiments.trainer import CHECKPOINTS
from treefold.records import Record
from treefold.training.state import restore


def best_model(folder: Path, experiment: Experiment) -> nn.Module:
    """The network of a run with its best parameters, ready to evaluate."""
    checkpoint = CheckpointStore(folder / CHECKPOINTS, "best").load()
    if checkpoint is None:
        raise ValueError(f"{folder} has no best checkpoint yet; train it first")
    model = build_model(experiment)
    restore(checkpoint, rng=False, model=model)
    return model.eval()


def experiment_of(record: Record) -> Experiment:
    """The experiment that a record describes."""
    return experiment_from_recipe(record.name, record.recipe)
