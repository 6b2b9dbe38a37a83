"""From a run's progress to events for a display."""

import time
from typing import Any

from treefold.lab.cli.display import Display, Throttle
from treefold.lab.experiments import Experiment, Watcher
from treefold.lab.runs import Progress


def watch(display: Display, name: str, experiment: Experiment) -> Watcher:
    """A watcher that tells the display what happens, steps only now and then."""
    ready, epochs = Throttle(), experiment.training.epochs
    start: tuple[float, int] | None = None  # when we began to look, and at which step

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
                "epochs": epochs,
                "step": progress.step,
                "steps": steps,
                "loss": progress.loss / progress.sets,
                "sets_per_second": (done - first) * experiment.training.batch_size / elapsed,
            },
        )

    def epoch(row: dict[str, float | int], steps: int) -> None:
        display.show(
            name, {"kind": "epoch", "epochs": epochs, "step": steps, "steps": steps, **row}
        )

    def evaluated(shown: dict[str, Any]) -> None:
        if ready:
            display.show(name, {"kind": "evaluated", **shown})

    return Watcher(step, epoch, evaluated)
