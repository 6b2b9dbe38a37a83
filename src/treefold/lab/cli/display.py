"""Runs on the screen: bars on a terminal, a line per epoch elsewhere."""

import json
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from treefold.lab.cli.errors import stop_printing

Event = Mapping[str, Any]
"""An event of a run: `kind` is `step`, `epoch` or `evaluated`, the rest are numbers."""

SECONDS_BETWEEN_STEPS = 0.25
WIDTH_OF_ONE_LINE = 140
"""Columns that a bar and its numbers take side by side."""


class Display(ABC):
    """Shows the events of one or several runs, by name."""

    @abstractmethod
    def show(self, name: str, event: Event) -> None:
        """Show an event."""

    def finish(self, name: str, message: str) -> None:
        """A run is over."""
        self.close(name)
        self.say(f"{name}: {message}")

    def close(self, name: str) -> None:  # noqa: B027
        """Show no more of a run."""

    def say(self, line: str) -> None:
        """Leave a line."""
        print_line(line)

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Lines(Display):
    """A line per epoch, and one for all that was evaluated."""

    def show(self, name: str, event: Event) -> None:
        """Print epochs; steps would be too many."""
        if event["kind"] == "epoch":
            print_line(f"{name}: epoch {event['epoch']}/{event['epochs']}  {numbers(event)}")


class Silent(Display):
    """Nothing, for all processes but the first."""

    def show(self, name: str, event: Event) -> None:
        """Print nothing."""

    def say(self, line: str) -> None:
        """Print nothing."""


class Json(Display):
    """Every event as a line of JSON, for a program that watches.

    When that program is gone, such as a sweep that was killed, the run is stopped as by a signal.
    """

    def show(self, name: str, event: Event) -> None:
        """Print the event."""
        if not print_line(json.dumps({"name": name, **event})):
            signal.raise_signal(signal.SIGTERM)

    def finish(self, name: str, message: str) -> None:
        """Print the end."""
        print_line(json.dumps({"name": name, "kind": "finished", "message": message}))


class TwoLines(Progress):
    """For narrow terminals: the numbers of each bar stand below it."""

    def get_renderables(self) -> Iterator[RenderableType]:
        """A bar and a line for each task."""
        for task in self.tasks:
            yield self.make_tasks_table([task])
            yield Text(f"  {task.fields['numbers']}".replace("associativity", "law"), style="dim")


class Bars(Display):
    """A bar per run: epoch, loss, validation accuracy, law violation, sets/s, time left."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = [
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(compact=True),
        ]
        if console.width < WIDTH_OF_ONE_LINE:
            self._progress: Progress = TwoLines(*columns, console=console)
        else:
            text = TextColumn("{task.fields[numbers]}", style="dim", markup=False)
            self._progress = Progress(*columns, text, console=console)
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

    def close(self, name: str) -> None:
        """Take the bar away."""
        if name in self._bars:
            self._progress.remove_task(self._bars.pop(name))

    def say(self, line: str) -> None:
        """Leave a line above the bars."""
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_line(line: str) -> bool:
    """Print a line; false if the reader, such as `head`, is gone."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        stop_printing()
        return False
    return True


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
