"""A run in progress: it trains, validates and saves, epoch by epoch, and resumes."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from treefold.checkpoints import CheckpointStore, DamagedCheckpoint
from treefold.lab.experiments.annealing import Annealing
from treefold.lab.experiments.build import build_optimizer, build_schedule
from treefold.lab.experiments.standing import Standing
from treefold.lab.experiments.task_runner import TaskRunner, mean_violations
from treefold.lab.runs import (
    MetricsLog,
    NonFinite,
    Progress,
    Stopped,
    StopRequest,
    TensorBoardLog,
    World,
    capture,
    fit,
    is_finite,
    restore,
)

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Watcher:
    """Callbacks: after every step, every epoch, and every evaluated case."""

    step: Callable[[Progress, int], None] = lambda progress, steps: None
    epoch: Callable[[dict[str, float | int], int], None] = lambda row, steps: None
    evaluated: Callable[[dict[str, Any]], None] = lambda shown: None


class Trainer:
    """The modules, data and files of one run; restored from its last checkpoint if it has one."""

    def __init__(self, runner: TaskRunner, model: nn.Module, folder: Path, world: World) -> None:
        self.runner, self.model, self.world = runner, model, world
        self.training = runner.experiment.training
        self.data = runner.train()
        self.steps = len(runner.batches(self.data, self.training.batch_size, torch.Generator()))
        self.optimizer = build_optimizer(self.model, self.training, self.world.device)
        self.schedule = build_schedule(
            self.optimizer,
            self.training,
            self.steps * (self.training.epochs or 1),
            runner.pace_highest,
        )
        self.wrapped, self.wrapped_optimizer = world.wrap(self.model, self.optimizer)
        self.annealing = Annealing(model, self.training)
        self.progress, self.standing = Progress(), Standing()
        self.last = CheckpointStore(folder / CHECKPOINTS, "last")
        self.best = CheckpointStore(folder / CHECKPOINTS, "best")
        self.log = MetricsLog(folder)
        self._resume()
        self.annealing.set(self._done())
        self.curves = TensorBoardLog(folder, self._epochs_done()) if world.rank == 0 else None

    def train(self, watcher: Watcher, stop: StopRequest) -> None:
        """Train until the last epoch; save after each, and before giving in to `stop`."""
        self.runner.warm_up(self.wrapped, self.world)
        begin = time.monotonic() - self.standing.seconds
        if self._is_over():
            return
        try:
            for progress in self._fit():
                watcher.step(progress, self.steps)
                self.standing.seconds = time.monotonic() - begin
                if self._epoch_is_over():
                    self._finish_epoch(watcher)
                    if self.runner.times_training_alone:
                        begin = time.monotonic() - self.standing.seconds
                if self.world.any(bool(stop)):
                    if not self._epoch_is_over():  # at its end an epoch has been saved
                        self._save()
                    raise self._stopped(stop, f"at epoch {progress.epoch}, step {progress.step}")
                if self._is_over():
                    return
                self.annealing.set(self._done())
        except NonFinite as error:
            if is_finite(self.model, self.optimizer):
                self._save()
            raise NonFinite(f"{error}. {self._kept()}") from None

    def evaluate(self, watcher: Watcher, stop: StopRequest) -> dict[str, Any]:
        """The scores of the checkpoint that did best on validation, for every case.

        With `scores_last`, those of the last epoch as well, called `-last`.
        """
        last = self.runner.metrics(self._scores(watcher, stop)) if self.runner.scores_last else {}
        best = self.best.load()
        if best is None:
            raise DamagedCheckpoint(
                f"{self.best.folder} has no checkpoint called best, which epoch "
                f"{self.standing.best_epoch} has left; restore it from a copy, or remove the run's "
                "folder to train again"
            )
        restore(best, model=self.model)
        # Where the newest of the best was damaged, this is an older one, with its own epoch.
        chosen = Standing(**best.state["standing"])
        scores = self._scores(watcher, stop)
        with self.world.computing():
            others = self.runner.best_metrics(self.model, self.world.device)
        return {
            "num_parameters": sum(p.numel() for p in self.model.parameters()),
            "best_epoch": chosen.best_epoch,
            self.runner.chosen_by: chosen.best,
            "seconds_per_epoch": self.standing.seconds_per_epoch(
                self.progress.epoch - 1 + self.progress.step / self.steps,
                every=self.runner.times_training_alone,
            ),
            **self.runner.metrics(scores),
            **{f"{name}-last": value for name, value in last.items() if "@" in name},
            **others,
        }

    def _scores(self, watcher: Watcher, stop: StopRequest) -> dict[Any, Any]:
        self.wrapped.eval()
        scores = {}
        for case in self.runner.cases():
            if self.world.any(bool(stop)):
                raise self._stopped(stop, "while it was evaluated")
            with torch.no_grad():
                scores[case] = self.runner.score(self.wrapped, case, self.world.device)
            watcher.evaluated(self.runner.shown(case, scores[case]))
        return scores

    def close(self) -> None:
        """Finish the files that are written to all along."""
        if self.curves is not None:
            self.curves.close()

    def _fit(self) -> Any:
        return fit(
            self.world,
            self.wrapped,
            self.wrapped_optimizer,
            None if isinstance(self.schedule, ReduceLROnPlateau) else self.schedule,
            self.data,
            self.runner.loss,
            batch_size=self.training.batch_size,
            clip_norm=self.training.clip_norm,
            seed=self.runner.seed,
            progress=self.progress,
            batches=self.runner.batches,
        )

    def _done(self) -> float:
        """The part of all epochs that is done."""
        epoch, step = self.progress.epoch, self.progress.step
        return (epoch - 1 + step / self.steps) / (self.training.epochs or epoch)

    def _time_is_up(self) -> bool:
        seconds = self.training.seconds
        return seconds is not None and self.world.any(self.standing.seconds >= seconds)

    def _epoch_is_over(self) -> bool:
        return self.progress.step == self.steps or self._time_is_up()

    def _is_over(self) -> bool:
        if self._time_is_up():
            return True
        epoch, patience = self.progress.epoch, self.training.patience
        waited = patience is not None and epoch - self.standing.best_epoch >= patience
        slow = float(self.schedule.get_last_lr()[0]) < self.training.min_learning_rate
        ends = waited or slow or epoch == self.training.epochs
        return self.progress.step == self.steps and ends

    def _finish_epoch(self, watcher: Watcher) -> None:
        progress, standing = self.progress, self.standing
        if progress.epoch == 1:
            standing.first_seconds = standing.seconds
        self._require_finite()
        self.runner.finish_epoch(self.model)
        row: dict[str, float | int] = {
            "epoch": progress.epoch,
            "seconds": round(standing.seconds, 3),
            "learning_rate": float(self.schedule.get_last_lr()[0]),
            **{f"train_{name}": mean for name, mean in progress.means().items()},
        }
        if self._validates():
            row |= self._validate()
            if isinstance(self.schedule, ReduceLROnPlateau):
                self.schedule.step(row[self.runner.paced_by])
            found, loss = row[self.runner.chosen_by], row["validation_loss"]
            if standing.is_beaten(found, loss, self.annealing.is_over, self.runner.highest):
                standing.take(progress.epoch, found, loss, self.annealing.is_over)
                state = capture(model=self.model, standing=dataclasses.asdict(standing))
                self.world.first(lambda: self.best.save(state))
        self.world.first(lambda: self.log.append(row))
        self._save()
        if self.curves is not None:
            self.curves.append(row)
        watcher.epoch(row, self.steps)

    def _validates(self) -> bool:
        """True at the first epoch, which names the columns of the log, at the last, and between."""
        epoch = self.progress.epoch
        return epoch == 1 or epoch % self.training.validate_every == 0 or self._is_over()

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        self.wrapped.eval()
        device = self.world.device
        laws: dict[str, float] = {}
        if self.runner.logs_laws:
            with self.world.computing():
                laws = mean_violations(self.runner.folded(self.model, device))
        return {**self.runner.validate(self.wrapped, device), **laws}

    def _save(self) -> None:
        self._require_finite()
        state = capture(
            **self._parts(),
            progress=self.progress.state(),
            standing=dataclasses.asdict(self.standing),
        )
        self.world.first(lambda: self.last.save(state))

    def _require_finite(self) -> None:
        """Raise an error once an update has made parameters that are not finite."""
        if not is_finite(self.model, self.optimizer):
            raise NonFinite(
                f"at epoch {self.progress.epoch}, step {self.progress.step}, an update has made "
                "parameters that are not finite. Try a smaller training.learning_rate"
            )

    def _kept(self) -> str:
        """The state from which a run that failed resumes, in words."""
        self.world.wait()
        checkpoint, names = self.last.load(), self.last.names()
        if checkpoint is None:
            return "No state was saved: the next attempt starts from the beginning"
        kept = checkpoint.state["progress"]
        return (
            f"The last finite state, of epoch {kept['epoch']}, step {kept['step']}, is saved as "
            f"{self.last.folder.name}/{names[-1]}"
        )

    def _parts(self) -> dict[str, Any]:
        """The parts that a checkpoint holds, and is restored into."""
        parts = {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}
        return parts if self.world.scaler is None else {**parts, "scaler": self.world.scaler}

    def _resume(self) -> None:
        checkpoint = self.last.load()
        if checkpoint is not None:
            parts: dict[str, Any] = {"progress": {}, "standing": {}}
            restore(checkpoint, **self._parts(), **parts)
            self.progress = Progress(**parts["progress"])
            self.standing = Standing(**parts["standing"])
        if self.world.rank == 0:  # an epoch is logged before it is saved
            self.log.truncate_after(self._epochs_done())

    def _epochs_done(self) -> int:
        return self.progress.epoch - (not self._epoch_is_over())

    def _stopped(self, stop: StopRequest, where: str) -> Stopped:
        who, folder = stop.signal or "another process", self.last.folder.parent
        return Stopped(f"stopped by {who} {where}; `treefold resume {folder}` resumes it")
