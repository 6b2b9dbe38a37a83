"""From a run's folder back to its trained network, or to the parts of it that fold."""

import dataclasses
from pathlib import Path
from typing import cast

import torch
from torch import nn

from treefold.aggr import LCMAggregation
from treefold.checkpoints import Checkpoint, CheckpointStore
from treefold.distributed import BinaryAnswers, ModelFold
from treefold.lab.experiments.build import build_model
from treefold.lab.experiments.catalogue import experiment_from_recipe, runner_of
from treefold.lab.experiments.recipe import Experiment
from treefold.lab.experiments.task_runner import TaskRunner
from treefold.lab.experiments.trained import located
from treefold.lab.experiments.trainer import CHECKPOINTS
from treefold.lab.networks import SetNetwork
from treefold.lab.runs import Record, restore
from treefold.saving import RUN, is_saved, load, read_config, read_model, write_model


def load_model(path: Path | str) -> nn.Module:
    """The trained network of a run, ready to evaluate.

    `path` is the run's folder, for the parameters that did best on validation, or one of its
    checkpoints, or the name of a model that comes with treefold: a key of `TRAINED`.
    """
    path = Path(path)
    return model_at(path, runner_of(experiment_of(Record.read(run_of(path))), seed=0))


def model_at(path: Path, runner: TaskRunner) -> nn.Module:
    """The network of a run, ready to evaluate: its best, or that of the checkpoint `path` names.

    Its parameters have the type they were trained in: float64 for the precision 64-true.
    """
    if not names_checkpoint(path):
        return best_model(run_of(path), runner)
    return _restored(CheckpointStore.read(path), runner)


def save_run(path: Path | str, folder: Path | str) -> None:
    """Write the network of a run, or of one of its checkpoints, as a folder with its record.

    `load_model`, `load_fold` and the commands take it like a run.
    """
    record = dataclasses.asdict(Record.read(run_of(Path(path))))
    write_model(folder, {"class": RUN, "record": record}, load_model(path).state_dict())


def best_model(folder: Path, runner: TaskRunner) -> nn.Module:
    """The network of a run with its best parameters, ready to evaluate."""
    if is_saved(folder):
        model = build_model(runner)
        model.load_state_dict(read_model(folder)[1], assign=True)
        return model.eval()
    checkpoint = CheckpointStore(folder / CHECKPOINTS, "best").load()
    if checkpoint is None:
        done = Record.read(folder).status == "finished"
        raise ValueError(
            f"{folder} is a record without its weights; give the folder in which it was trained"
            if done
            else f"{folder} has no best checkpoint yet; train it first"
        )
    return _restored(checkpoint, runner)


def load_fold(path: str | Path) -> ModelFold:
    """The fold of a saved model or a run: of its best parameters, or of one of its checkpoints."""
    path = Path(path)
    if (model := saved_model(path)) is not None:
        return ModelFold.of(model)
    return fold_of(load_model(path), Record.read(run_of(path)).name)


def saved_model(path: Path) -> object | None:
    """The aggregator, operator or finite monoid that is saved in a folder; None for a run."""
    path = located(path)
    if is_saved(path) and read_config(path).get("class") != RUN:
        return cast(object, load(path))
    return None


@torch.no_grad()
def fold_of(model: nn.Module, name: str = "the model") -> ModelFold:
    """The parts of a network that fold, or a ValueError if its aggregator is no monoid."""
    if not isinstance(model, SetNetwork) or not isinstance(model.aggregator, LCMAggregation):
        raise ValueError(
            f"{name} has no learned operator to merge states with; choose a run of an "
            "aggregator such as binary-gru"
        )
    # Whatever it was trained in: tables of states are in float32.
    model = model.float().eval()
    aggregator, table = model.aggregator, model.table()
    return ModelFold(
        operator=aggregator.operator,
        table=table if aggregator.project is None else aggregator.project(table),
        decoder=BinaryAnswers(model.decoder),
        bracketing=aggregator.eval_bracketing,
    )


def names_checkpoint(path: Path) -> bool:
    """True for the path of a file among a run's checkpoints."""
    return path.parent.name == CHECKPOINTS and path.is_file()


def run_of(path: Path | str) -> Path:
    """The run folder that a path means: itself, its folder of checkpoints, or one of these.

    The name of a trained model, such as trained/parity, means that model.
    """
    path = located(path)
    if names_checkpoint(path):
        return path.parent.parent
    return path.parent if path.name == CHECKPOINTS and path.is_dir() else path


def experiment_of(record: Record) -> Experiment:
    """The experiment that a record describes."""
    try:
        return experiment_from_recipe(record.name, record.recipe)
    except (KeyError, TypeError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else f"does not fit: {error}"
        raise ValueError(
            f"the recipe in the record of {record.name} {what}; expected one that `treefold "
            "train` has written"
        ) from None


def _restored(checkpoint: Checkpoint, runner: TaskRunner) -> nn.Module:
    model = _typed_as(checkpoint, build_model(runner))
    restore(checkpoint, model=model)
    return model.eval()


def _typed_as(checkpoint: Checkpoint, model: nn.Module) -> nn.Module:
    types = {
        value.dtype
        for name, value in checkpoint.tensors.items()
        if name.startswith("model/") and value.is_floating_point()
    }
    return model.to(types.pop()) if len(types) == 1 else model
