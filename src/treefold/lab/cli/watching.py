"""From a run's progress to events for a display."""

import math
import time
from typing import Any

from treefold.lab.cli.display import Display, Throttle
from treefold.lab.experiments import Experiment, Training, Watcher
from treefold.lab.runs import Progress


def watch(display: Display, name: str, experiment: Experiment) -> Watcher:
    """A watcher that passes events on to the display, steps only now and then."""
    ready, training = Throttle(), experiment.training
    start: tuple[float, int] | None = None  # the time at the first look, and the steps done

    def step(progress: Progress, steps: int) -> None:
        nonlocal start
        done = (progress.epoch - 1) * steps + progress.step
        since, first = start = start or (time.monotonic(), done)
        if not ready or not progress.sets:
            return
        elapsed = max(time.monotonic() - since, 1e-9)
        display.show(
            name,
            {
                "kind": "step",
                "epoch": progress.epoch,
                "epochs": _num_epochs(training, progress.epoch, done / steps, elapsed),
                "step": progress.step,
                "steps": steps,
                "loss": progress.loss / progress.sets,
                "sets_per_second": (done - first) * training.batch_size / elapsed,
            },
        )

    def epoch(row: dict[str, float | int], steps: int) -> None:
        number, seconds = int(row["epoch"]), float(row["seconds"])
        epochs = _num_epochs(training, number, number, seconds)
        display.show(
            name, {"kind": "epoch", "epochs": epochs, "step": steps, "steps": steps, **row}
        )

    def evaluated(shown: dict[str, Any]) -> None:
        if ready:
            display.show(name, {"kind": "evaluated", **shown})

    return Watcher(step, epoch, evaluated)


def _num_epochs(training: Training, epoch: int, done: float, elapsed: float) -> int:
    """The number of epochs; with a budget of seconds alone, as many as they seem to allow."""
    if training.epochs is not None:
        return training.epochs
    assert training.seconds is not None
    return max(epoch, math.ceil(done * training.seconds / max(elapsed, 1e-9) - 1e-9))
