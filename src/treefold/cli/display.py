"""What a person sees of runs: bars on a terminal, a line per epoch elsewhere."""

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from treefold.cli.errors import stop_printing

Event = Mapping[str, Any]
"""What a run says of itself: `kind` is `step`, `epoch` or `evaluated`, the rest are numbers."""

SECONDS_BETWEEN_STEPS = 0.25


class Display(ABC):
    """Shows the events of one or several runs, by name."""

    @abstractmethod
    def show(self, name: str, event: Event) -> None:
        """Take notice of an event."""

    def finish(self, name: str, message: str) -> None:
        """A run is over."""
        say(f"{name}: {message}")

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Lines(Display):
    """A line per epoch, and one for all that was evaluated."""

    def show(self, name: str, event: Event) -> None:
        """Print epochs; steps would be too many."""
        if event["kind"] == "epoch":
            say(f"{name}: epoch {event['epoch']}/{event['epochs']}  {numbers(event)}")


class Silent(Display):
    """Nothing, for all processes but the first."""

    def show(self, name: str, event: Event) -> None:
        """Say nothing."""

    def finish(self, name: str, message: str) -> None:
        """Say nothing."""


class Json(Display):
    """Every event as a line of JSON, for a program that watches."""

    def show(self, name: str, event: Event) -> None:
        """Print the event."""
        say(json.dumps({"name": name, **event}))

    def finish(self, name: str, message: str) -> None:
        """Print the end."""
        say(json.dumps({"name": name, "kind": "finished", "message": message}))


class Bars(Display):
    """A bar per run: epoch, loss, validation accuracy, law violation, sets a second, time left."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[numbers]}", style="dim", markup=False),
            console=Console(stderr=True),
        )
        self._bars: dict[str, TaskID] = {}
        self._latest: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> "Bars":
        self._progress.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._progress.__exit__(*details)

    def show(self, name: str, event: Event) -> None:
        """Move the run's bar."""
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, numbers="")
            self._latest[name] = {}
        latest = self._latest[name]
        latest.update(event)
        if event["kind"] == "evaluated":
            what, case = list(event.items())[-2]  # what is evaluated, then its score
            self._progress.update(self._bars[name], numbers=f"evaluating {what} {case}")
            return
        done = (latest["epoch"] - 1) * latest["steps"] + latest.get("step", latest["steps"])
        self._progress.update(
            self._bars[name],
            total=latest["epochs"] * latest["steps"],
            completed=done,
            numbers=f"epoch {latest['epoch']}/{latest['epochs']}  {numbers(latest)}",
        )

    def finish(self, name: str, message: str) -> None:
        """Take the bar away and leave a line."""
        if name in self._bars:
            self._progress.remove_task(self._bars.pop(name))
        self._progress.console.print(
            f"{name}: {message}", markup=False, highlight=False, soft_wrap=True
        )


def say(line: str) -> None:
    """Print a line; a run goes on when whoever read its lines, such as `head`, has seen enough."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        stop_printing()


class Throttle:
    """Lets an event through only if the last one was a while ago."""

    def __init__(self, seconds: float = SECONDS_BETWEEN_STEPS) -> None:
        self._seconds, self._last = seconds, 0.0

    def __bool__(self) -> bool:
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


def choose_display(json_lines: bool, silent: bool = False) -> Display:
    """Bars on a terminal, lines elsewhere, JSON for programs."""
    if silent:
        return Silent()
    if json_lines:
        return Json()
    return Bars() if sys.stderr.isatty() else Lines()


def numbers(event: Event) -> str:
    """The numbers a person wants to see, in few words."""
    parts = []
    for key, label in (
        ("loss", "loss"),
        ("train_loss", "loss"),
        ("validation_accuracy", "validation"),
        ("validation_log10_mse", "validation log10 MSE"),
        ("validation_mae", "validation MAE"),
        ("validation_roc-auc", "validation ROC-AUC"),
        ("law:associativity", "associativity off by"),
        ("law:swap", "swap off by"),
    ):
        if key in event and not (key == "train_loss" and "loss" in event):
            parts.append(f"{label} {event[key]:.4f}")
    if "sets_per_second" in event:
        parts.append(f"{event['sets_per_second']:,.0f} sets/s")
    return "  ".join(parts)
