"""Runs as the report sees them: records with their training logs, and what could not be read."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treefold.lab.report.checks import check_record, is_finite
from treefold.lab.runs import LOG_FILE, RECORD_FILE, MetricsLog, Record, find_runs


@dataclass(frozen=True)
class Run:
    """One run: `place` is its folder as seen from the folder that was searched."""

    folder: Path
    place: str
    record: Record
    log: tuple[Mapping[str, float], ...] = ()

    @property
    def experiment(self) -> str:
        """The part of the name before the slash."""
        return self.record.name.partition("/")[0]

    @property
    def row(self) -> str:
        """Which row of the experiment's table: the part of the name after the slash.

        A run whose aggregator was changed is a row of that aggregator.
        """
        experiment, _, row = self.record.name.partition("/")
        return str(self.record.overrides.get("aggregator.name") or row or experiment)

    @property
    def finished(self) -> bool:
        """Whether its numbers are results."""
        return self.record.status == "finished"

    def option(self, part: str, name: str) -> Any:
        """An entry of the recipe, such as `("task", "bits")`; None where it has none."""
        entries = self.record.recipe.get(part)
        return entries.get(name) if isinstance(entries, dict) else None


@dataclass(frozen=True)
class Damaged:
    """A file that could not be read, and why."""

    place: str
    reason: str


@dataclass(frozen=True)
class Loaded:
    """All that was found below a folder."""

    runs: tuple[Run, ...]
    damaged: tuple[Damaged, ...]


def load_runs(folder: Path) -> Loaded:
    """Every run below `folder`; a damaged record costs that run, a damaged log only its curves."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give the folder that holds the runs")
    runs, damaged = [], []
    for path in find_runs(folder):
        place = path.relative_to(folder).as_posix()
        try:
            record = Record.read(path)
            check_record(record)
        except (ValueError, TypeError, OSError, RecursionError) as error:
            damaged.append(Damaged(f"{place}/{RECORD_FILE}", _reason(error, path)))
            continue
        try:
            log = _read_log(path)
        except (ValueError, TypeError, OSError, csv.Error) as error:
            damaged.append(Damaged(f"{place}/{LOG_FILE}", _reason(error, path)))
            log = ()
        runs.append(Run(path, place, record, log))
    if not runs and not damaged:
        raise ValueError(
            f"{folder} holds no {RECORD_FILE}; train first, for example with "
            f"`treefold sweep second-minimum --preset quick --out {folder}`"
        )
    return Loaded(tuple(runs), tuple(damaged))


def _read_log(folder: Path) -> tuple[Mapping[str, float], ...]:
    """The finite numbers of metrics.csv; of an epoch that was logged twice, the later row."""
    rows = [
        {name: float(cell) for name, cell in row.items() if is_finite(cell)}
        for row in MetricsLog.read(folder)
    ]
    if any("epoch" not in row for row in rows):
        raise ValueError("has rows without a number for `epoch`; correct or remove the file")
    by_epoch = {row["epoch"]: row for row in rows}
    return tuple(by_epoch[epoch] for epoch in sorted(by_epoch))


def _reason(error: Exception, folder: Path) -> str:
    # The page says where the file is in words that do not depend on who made it.
    return str(error).replace(f"{folder}/", "") or type(error).__name__
