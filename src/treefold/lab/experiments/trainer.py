"""A run in progress: what it holds, how it saves and goes on, epoch by epoch."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from treefold.checkpoints import CheckpointStore, DamagedCheckpoint
from treefold.lab.experiments.build import (
    build_model,
    build_optimizer,
    build_schedule,
    routine_of,
)
from treefold.lab.experiments.recipe import Experiment
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
    violations_on,
)

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Watcher:
    """Who looks on: called after every step, every epoch, and every evaluated case."""

    step: Callable[[Progress, int], None] = lambda progress, steps: None
    epoch: Callable[[dict[str, float | int], int], None] = lambda row, steps: None
    evaluated: Callable[[dict[str, Any]], None] = lambda shown: None


@dataclass
class Standing:
    """What a run knows besides its parameters: its best validation, and the time it has taken."""

    best: float | None = None
    best_loss: float | None = None
    best_epoch: int = 0
    seconds: float = 0.0
    first_seconds: float = 0.0
    """Of the first epoch, in which loops may be compiled."""


class Trainer:
    """The modules, data and files of one run; restored from its last checkpoint if it has one."""

    def __init__(self, experiment: Experiment, seed: int, folder: Path, world: World) -> None:
        self.experiment, self.seed, self.world = experiment, seed, world
        self.training = experiment.training
        self.routine = routine_of(experiment, seed)
        self.data = self.routine.train()
        self.steps = len(
            self.routine.batches(self.data, self.training.batch_size, torch.Generator())
        )
        torch.manual_seed(seed)
        self.model = build_model(experiment)
        self.optimizer = build_optimizer(self.model, self.training, self.world.device)
        self.schedule = build_schedule(
            self.optimizer,
            self.training,
            self.steps * self.training.epochs,
            self.routine.pace_highest,
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
                if self.world.any(bool(stop)):
                    if progress.step < self.steps:  # at its end an epoch has been saved
                        self._save()
                    raise _stopped(stop, f"at epoch {progress.epoch}, step {progress.step}")
                if self._is_over():
                    return
        except NonFinite as error:
            if is_finite(self.model, self.optimizer):
                self._save()
            raise NonFinite(f"{error}. {self._kept()}") from None

    def evaluate(self, watcher: Watcher, stop: StopRequest) -> dict[str, Any]:
        """The scores of the checkpoint that did best on validation, for every case.

        Where the routine asks for it, those of the last epoch as well, called `-last`.
        """
        last = self.routine.metrics(self._scores(watcher, stop)) if self.routine.scores_last else {}
        best = self.best.load()
        if best is None:
            raise DamagedCheckpoint(
                f"{self.best.folder} has no checkpoint called best, which epoch "
                f"{self.standing.best_epoch} has left; restore it from a copy, or remove the run's "
                "folder to train again"
            )
        restore(best, rng=False, model=self.model)
        # Where the newest of the best was damaged, this is an older one, and says so.
        chosen = Standing(**best.state["standing"])
        scores = self._scores(watcher, stop)
        return {
            "num_parameters": sum(p.numel() for p in self.model.parameters()),
            "best_epoch": chosen.best_epoch,
            self.routine.chosen_by: chosen.best,
            "seconds_per_epoch": self._seconds_per_epoch(),
            **self.routine.metrics(scores),
            **{f"{name}-last": value for name, value in last.items() if "@" in name},
        }

    def _seconds_per_epoch(self) -> float:
        """The mean of all epochs but the first, if there are more."""
        epochs, standing = self.progress.epoch, self.standing
        if epochs == 1:
            return standing.seconds
        return (standing.seconds - standing.first_seconds) / (epochs - 1)

    def _scores(self, watcher: Watcher, stop: StopRequest) -> dict[Any, Any]:
        self.wrapped.eval()
        scores = {}
        for case in self.routine.cases():
            if self.world.any(bool(stop)):
                raise _stopped(stop, "while it was evaluated")
            with torch.no_grad():
                scores[case] = self.routine.score(self.wrapped, case, self.world.device)
            watcher.evaluated(self.routine.shown(case, scores[case]))
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
            self.routine.loss,
            batch_size=self.training.batch_size,
            clip_norm=self.training.clip_norm,
            seed=self.seed,
            progress=self.progress,
            batches=self.routine.batches,
        )

    def _is_over(self) -> bool:
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
        row: dict[str, float | int] = {
            "epoch": progress.epoch,
            "seconds": round(standing.seconds, 3),
            "learning_rate": float(self.schedule.get_last_lr()[0]),
            **{f"train_{name}": mean for name, mean in progress.means().items()},
        }
        if self._validates():
            row |= self._validate()
            if isinstance(self.schedule, ReduceLROnPlateau):
                self.schedule.step(row[self.routine.paced_by])
            if self._is_better(row):
                standing.best = row[self.routine.chosen_by]
                standing.best_loss = row["validation_loss"]
                standing.best_epoch = progress.epoch
                state = capture(rng=False, model=self.model, standing=dataclasses.asdict(standing))
                self.world.first(lambda: self.best.save(state))
        # An older version that began this run may have logged fewer columns.
        logged = {key: row[key] for key in self.log.columns or row if key in row}
        self.world.first(lambda: self.log.append(logged))
        self._save()
        if self.curves is not None:
            self.curves.append(row)
        watcher.epoch(row, self.steps)

    def _validates(self) -> bool:
        """At the first epoch, which names the columns of the log, at the last, and in between."""
        epoch = self.progress.epoch
        return epoch == 1 or epoch % self.training.validate_every == 0 or self._is_over()

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        self.wrapped.eval()
        device = self.world.device
        with self.world.computing():
            folded = self.routine.folded(self.model, device)
            laws = violations_on(*folded) if folded else {}
        return {
            **self.routine.validate(self.wrapped, device),
            **{f"law:{law}": value for law, value in laws.items()},
        }

    def _is_better(self, row: Mapping[str, float | int]) -> bool:
        """By the routine's measure; of equal ones, such as two perfect epochs, by the loss."""
        found, best, loss = row[self.routine.chosen_by], self.standing.best, self.standing.best_loss
        if best is None or math.isnan(best):  # anything is better than no number
            return True
        if found == best and loss is not None:
            return row["validation_loss"] < loss
        return found > best if self.routine.highest else found < best

    def _save(self) -> None:
        self._require_finite()
        state = capture(
            rng=False,  # every step draws from (seed, step)
            **self._parts(),
            progress=self.progress.state(),
            standing=dataclasses.asdict(self.standing),
        )
        self.world.first(lambda: self.last.save(state))

    def _require_finite(self) -> None:
        """Refuse to go on, and to save, once an update has made parameters that are no numbers."""
        if not is_finite(self.model, self.optimizer):
            raise NonFinite(
                f"at epoch {self.progress.epoch}, step {self.progress.step}, an update has made "
                "parameters that are not finite. Try a smaller training.learning_rate"
            )

    def _kept(self) -> str:
        """Which state a run that failed goes on from."""
        self.world.wait()
        checkpoint, names = self.last.load(), self.last.names()
        if checkpoint is None:
            return "No state was kept: the next attempt begins anew"
        kept = checkpoint.state["progress"]
        return (
            f"The last finite state, of epoch {kept['epoch']}, step {kept['step']}, is kept as "
            f"{self.last.folder.name}/{names[-1]}"
        )

    def _parts(self) -> dict[str, Any]:
        """What a checkpoint holds, and is restored into."""
        parts = {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}
        return parts if self.world.scaler is None else {**parts, "scaler": self.world.scaler}

    def _resume(self) -> None:
        checkpoint = self.last.load()
        if checkpoint is not None:
            parts: dict[str, Any] = {"progress": {}, "standing": {}}
            restore(checkpoint, rng=False, **self._parts(), **parts)
            self.progress = Progress(**parts["progress"])
            self.standing = Standing(**parts["standing"])
        if self.world.rank == 0:  # an epoch is logged before it is saved
            self.log.truncate_after(self._epochs_done())

    def _epochs_done(self) -> int:
        return self.progress.epoch - (self.progress.step < self.steps)


def _stopped(stop: StopRequest, where: str) -> Stopped:
    who = stop.signal or "another process"
    return Stopped(f"stopped by {who} {where}; `treefold resume` goes on from here")
