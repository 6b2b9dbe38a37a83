"""Groups of runs: records with their logs, put together over their seeds. Needs no torch."""

import csv
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from treefold.lab.runs.metrics_log import MetricsLog
from treefold.lab.runs.record import Record, find_runs

BY_SIZE = "seconds_per_epoch_by_size"


class Stat(NamedTuple):
    """One number from several runs, or a published one; the deviation needs two runs."""

    mean: float
    low: float
    high: float
    deviation: float | None = None
    source: str = ""

    def text(self, digits: int) -> str:
        """The mean, with the standard deviation where it is known."""
        words = f"{self.mean:.{digits}f}".replace("-", "−")
        return words if self.deviation is None else f"{words} ± {self.deviation:.{digits}f}"


def stat(values: Iterable[Any]) -> Stat | None:
    """The finite numbers among the values as one; None if there are none."""
    found = [float(value) for value in values if is_number(value)]
    if not found:
        return None
    deviation = statistics.stdev(found) if len(found) > 1 else None
    return Stat(statistics.fmean(found), min(found), max(found), deviation)


def is_number(value: Any) -> TypeGuard[float]:
    """Return if it can be averaged and drawn."""
    return isinstance(value, int | float) and value is not True and abs(value) < math.inf


class Run(NamedTuple):
    """A run: its folder, its record and its log."""

    folder: Path
    record: Record
    log: Sequence[Mapping[str, Any]] = ()

    def option(self, part: str, name: str) -> Any:
        """An entry of the recipe, such as `("task", "bits")`; None where it has none."""
        entries = self.record.recipe.get(part)
        return entries.get(name) if isinstance(entries, dict) else None

    @property
    def machine(self) -> str:
        """What it was timed on: times of other machines, or of busy ones, do not compare."""
        found = {**self.record.hardware, **self.record.machine}
        words = [str(found[key]) for key in ("cpu", "accelerators") if found.get(key)]
        words += [f"{found[key]} {key}" for key in ("cores", "threads") if found.get(key)]
        load, cores = found.get("load"), found.get("cores")
        busy = is_number(load) and is_number(cores) and load > cores
        return ", ".join([*words, *["busy"] * busy]) or "a machine that is not recorded"


class Group:
    """All runs of one recipe, which differ in their seeds; numbers are of finished ones alone.

    `row` is the aggregator or a name for a variant of it, `changes` what the command line changed
    in the preset, `weight` the λ of a sweep.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        record, option = runs[0].record, runs[0].option
        self.runs, self.preset = runs, record.preset
        self.finished = [run for run in runs if run.record.status == "finished"]
        self.changes = dict(sorted(record.overrides.items()))
        row = self.changes.pop("aggregator.name", None)
        self.experiment, _, rest = record.name.partition("/")
        self.row = str(row or rest or self.experiment)
        changed = (f"{key}={value}" for key, value in self.changes.items())
        self.variant = ", ".join((self.preset, *changed))
        self.aggregator = str(option("aggregator", "name"))
        options = option("aggregator", "options")
        found = options.get("associativity") if isinstance(options, dict) else None
        swept = self.experiment.endswith("-lambda") and is_number(found)
        self.weight: float | None = found if swept else None
        names = dict.fromkeys(name for run in self.finished for name in run.record.metrics)
        self.scores = [name for name in names if "@" in name and self.metric(name)]
        self.scores += [f"seconds_per_epoch@{size}" for size in self.by_size(BY_SIZE)]

    @property
    def timed_on(self) -> str:
        """The machine, if times are what was measured: scores do not depend on it."""
        return self.runs[0].machine if BY_SIZE in self.runs[0].record.metrics else ""

    def metric(self, name: str) -> Stat | None:
        """A metric over the seeds, such as `accuracy@200` or `seconds_per_epoch@200`."""
        if name.startswith("seconds_per_epoch@"):
            return self.by_key(BY_SIZE).get(name.partition("@")[2])
        return stat(run.record.metrics.get(name) for run in self.finished)

    def reported(self, name: str) -> Stat | None:
        """The published value of a metric."""
        found = (run.record.reported.get(name) for run in self.runs)
        entry: dict[str, Any] = next((each for each in found if isinstance(each, dict)), {})
        value, spread = entry.get("value"), entry.get("spread")
        if not is_number(value):
            return None
        known = spread if is_number(spread) else None
        ends = value - (known or 0), value + (known or 0)
        return Stat(value, *ends, known, str(entry.get("source", "")))

    def by_key(self, name: str) -> dict[str, Stat]:
        """A metric with entries, such as by set size, over the seeds and repetitions."""
        found = (run.record.metrics.get(name) for run in self.finished)
        return _joined(pair for each in found if isinstance(each, dict) for pair in each.items())

    def by_size(self, name: str) -> dict[int, Stat]:
        """A metric by set size, the smallest first."""
        found = {int(key): each for key, each in self.by_key(name).items() if key.isdecimal()}
        return {size: found[size] for size in sorted(found) if size > 0}

    def logged(self, column: str) -> dict[int, Stat]:
        """A column of the logs by epoch."""
        rows = sorted(self.log, key=lambda row: int(row["epoch"]))
        return _joined((int(row["epoch"]), row.get(column)) for row in rows)

    @property
    def log(self) -> list[Mapping[str, Any]]:
        """The rows of all logs."""
        return [row for run in self.finished for row in run.log]


def _joined(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Stat]:
    """The values of each key as one number; a list counts as several values."""
    values: dict[Any, list[Any]] = defaultdict(list)
    for key, value in pairs:
        values[key] += value if isinstance(value, list) else [value]
    return {key: each for key in values if (each := stat(values[key]))}


def load_groups(folder: Path) -> tuple[list[Group], list[str]]:
    """The groups below a folder, and what could not be read and why.

    A damaged record costs that run alone, a damaged log its curves alone.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give the folder that holds the runs")
    damaged: list[str] = []
    by_recipe: dict[str, list[Run]] = defaultdict(list)
    for run in sorted(_runs(folder, damaged), key=lambda run: run.record.seed):
        recipe = {key: value for key, value in run.record.recipe.items() if key != "seed"}
        same = [run.record.name, run.record.preset, recipe, run.record.overrides]
        same += [run.machine] if BY_SIZE in run.record.metrics else []
        by_recipe[json.dumps(same, sort_keys=True)].append(run)
    if not by_recipe and not damaged:
        raise ValueError(
            f"{folder} holds no record.json; train first, for example with "
            f"`treefold sweep second-minimum --preset quick --out {folder}`"
        )
    return [*map(Group, by_recipe.values())], damaged


def _runs(folder: Path, damaged: list[str]) -> Iterator[Run]:
    def read(part: Callable[[Path], Any], path: Path) -> Any:
        try:
            return part(path)
        except (ValueError, TypeError, OSError, RecursionError, csv.Error) as error:
            damaged.append(f"{path.relative_to(folder)}: {str(error).replace(f'{path}/', '')}")

    for path in find_runs(folder):
        if record := read(Record.read, path):
            log = [row for row in read(MetricsLog.read, path) or () if is_number(row.get("epoch"))]
            yield Run(path, record, log)
