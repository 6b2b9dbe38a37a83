"""A run in progress: what it holds, how it saves and goes on, epoch by epoch."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from treefold.checkpoints import CheckpointStore
from treefold.experiments.build import build_model, build_optimizer, build_schedule
from treefold.experiments.recipe import Experiment
from treefold.models import SetNetwork
from treefold.records import MetricsLog
from treefold.training.fit import NonFinite, Progress, fit, num_steps
from treefold.training.scoring import loss_and_correct, score
from treefold.training.signals import StopRequest
from treefold.training.state import capture, restore
from treefold.training.tensorboard import TensorBoardLog
from treefold.training.violations import law_violations
from treefold.training.world import World

CHECKPOINTS = "checkpoints"
NUM_VIOLATION_SETS = 64
"""Validation sets on whose states law violations are measured."""


class Stopped(Exception):
    """A run was asked to stop, and has saved its state."""


@dataclass(frozen=True)
class Watcher:
    """Who looks on: called after every step, every epoch, and every evaluated size."""

    step: Callable[[Progress, int], None] = lambda progress, steps: None
    epoch: Callable[[dict[str, float | int], int], None] = lambda row, steps: None
    evaluated: Callable[[int, float], None] = lambda size, accuracy: None


@dataclass
class Standing:
    """What a run knows besides its parameters: its best validation, and the time it has taken."""

    best_accuracy: float = -1.0
    best_epoch: int = 0
    seconds: float = 0.0


class Trainer:
    """The modules, data and files of one run; restored from its last checkpoint if it has one."""

    def __init__(self, experiment: Experiment, seed: int, folder: Path, world: World) -> None:
        self.experiment, self.seed, self.world = experiment, seed, world
        self.training = experiment.training
        self.data = experiment.task.train(seed)
        self.validation = experiment.task.validation(seed)
        self.steps = num_steps(len(self.data), self.training.batch_size)
        torch.manual_seed(seed)
        self.model = build_model(experiment)
        self.optimizer = build_optimizer(self.model, self.training)
        self.schedule = build_schedule(
            self.optimizer, self.training, self.steps * self.training.epochs
        )
        self.wrapped, self.wrapped_optimizer = world.wrap(self.model, self.optimizer)
        self.progress, self.standing = Progress(), Standing()
        self.last = CheckpointStore(folder / CHECKPOINTS, "last")
        self.best = CheckpointStore(folder / CHECKPOINTS, "best")
        self.log = MetricsLog(folder)
        self._resume()
        self.curves = TensorBoardLog(folder, self._epochs_done()) if world.rank == 0 else None

    def train(self, watcher: Watcher, stop: StopRequest) -> None:
        """Until the last epoch; saves after each, and before it gives in to `stop`."""
        begin = time.monotonic() - self.standing.seconds
        if self._is_over():
            return
        try:
            for progress in self._fit():
                watcher.step(progress, self.steps)
                self.standing.seconds = time.monotonic() - begin
                if progress.step == self.steps:
                    self._finish_epoch(watcher)
                if self._is_over():
                    return
                if self.world.any(bool(stop)):
                    self._save()
                    raise Stopped(
                        f"stopped by {stop.signal or 'another process'} at epoch {progress.epoch}, "
                        f"step {progress.step}; `treefold resume` goes on from here"
                    )
        except NonFinite:
            self._save()
            raise

    def evaluate(self, watcher: Watcher) -> dict[str, Any]:
        """The scores of the checkpoint that did best on validation, for every evaluation size."""
        best = self.best.load()
        if best is not None:
            restore(best, rng=False, model=self.model)
        task, evaluation = self.experiment.task, self.experiment.evaluation
        accuracy = {}
        for size in evaluation.sizes:
            data = task.evaluation(size, self.seed).to(self.world.device)
            _, accuracy[size] = score(self.wrapped, data, evaluation.elements_per_batch)
            watcher.evaluated(size, accuracy[size])
        return {
            "num_parameters": sum(p.numel() for p in self.model.parameters()),
            "best_epoch": self.standing.best_epoch,
            "validation_accuracy": self.standing.best_accuracy,
            "seconds_per_epoch": self.standing.seconds / self.training.epochs,
            **summary(accuracy, task.max_train_size),
            "accuracy": {str(size): value for size, value in accuracy.items()},
        }

    def _fit(self) -> Any:
        return fit(
            self.world,
            self.wrapped,
            self.wrapped_optimizer,
            self.schedule,
            self.data,
            loss_and_correct,
            batch_size=self.training.batch_size,
            clip_norm=self.training.clip_norm,
            seed=self.seed,
            progress=self.progress,
        )

    def _is_over(self) -> bool:
        progress = self.progress
        return progress.epoch == self.training.epochs and progress.step == self.steps

    def _finish_epoch(self, watcher: Watcher) -> None:
        progress, standing = self.progress, self.standing
        row: dict[str, float | int] = {
            "epoch": progress.epoch,
            "seconds": round(standing.seconds, 3),
            "learning_rate": float(self.schedule.get_last_lr()[0]),
            "train_loss": progress.loss / progress.sets,
            "train_accuracy": progress.correct / progress.sets,
        }
        if self._validates():
            row |= self._validate()
            if row["validation_accuracy"] > standing.best_accuracy:
                standing.best_accuracy = row["validation_accuracy"]
                standing.best_epoch = progress.epoch
                if self.world.rank == 0:
                    self.best.save(capture(rng=False, model=self.model))
        if self.curves is not None:
            self.log.append(row)
            self.curves.append(row)
        self._save()
        watcher.epoch(row, self.steps)

    def _validates(self) -> bool:
        """At the first epoch, which names the columns of the log, at the last, and in between."""
        epoch = self.progress.epoch
        return epoch == 1 or epoch % self.training.validate_every == 0 or self._is_over()

    def _validate(self) -> dict[str, float]:
        data = self.validation.to(self.world.device)
        elements = self.experiment.evaluation.elements_per_batch
        loss, accuracy = score(self.wrapped, data, elements)
        return {
            "validation_loss": loss,
            "validation_accuracy": accuracy,
            **{f"law:{law}": value for law, value in self._violations().items()},
        }

    def _violations(self) -> dict[str, float]:
        if not isinstance(self.model, SetNetwork):
            return {}
        some = self.validation.take(torch.arange(min(NUM_VIOLATION_SETS, len(self.validation))))
        return law_violations(self.model, some.to(self.world.device))

    def _save(self) -> None:
        self.world.wait()
        if self.world.rank == 0:
            self.last.save(
                capture(
                    rng=False,  # every step draws from (seed, step)
                    model=self.model,
                    optimizer=self.optimizer,
                    schedule=self.schedule,
                    progress=self.progress.state(),
                    standing=dataclasses.asdict(self.standing),
                )
            )

    def _resume(self) -> None:
        checkpoint = self.last.load()
        if checkpoint is None:
            return
        parts: dict[str, Any] = {"progress": {}, "standing": {}}
        restore(
            checkpoint,
            rng=False,
            model=self.model,
            optimizer=self.optimizer,
            schedule=self.schedule,
            **parts,
        )
        self.progress, self.standing = Progress(**parts["progress"]), Standing(**parts["standing"])
        if self.world.rank == 0:
            self.log.truncate_after(self._epochs_done())

    def _epochs_done(self) -> int:
        return self.progress.epoch - (self.progress.step < self.steps)


def summary(accuracy: dict[int, float], max_train_size: int) -> dict[str, float]:
    """The columns of the paper's table: the mean over training sizes, and two sizes beyond."""
    inside = [accuracy[size] for size in range(1, max_train_size + 1) if size in accuracy]
    found = {f"accuracy@1-{max_train_size}": sum(inside) / len(inside)} if inside else {}
    return found | {f"accuracy@{size}": accuracy[size] for size in (32, 200) if size in accuracy}
