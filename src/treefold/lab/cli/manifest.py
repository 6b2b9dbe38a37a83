"""Manifests: the runs of a sweep, named on the command line or in a TOML file."""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from treefold.lab.cli.commands import checked_seed, run_folder
from treefold.lab.experiments import (
    find_experiment,
    find_preset,
    override,
    require_aggregator,
    runner_of,
)
from treefold.lab.runs import FULL, RECORD_FILE, Record, UnreadableRecord, as_json, check_precision


@dataclass(frozen=True)
class Entry:
    """Rows of experiments with their seeds, as a `[[runs]]` of a manifest has them."""

    rows: tuple[str, ...]
    """EXPERIMENT or EXPERIMENT/ROW, as for `train`."""
    preset: str = "quick"
    seeds: tuple[int, ...] | int | None = None
    """Their numbers, or how many; the preset's number if not given."""
    set: tuple[str, ...] = ()
    """Overrides of the recipe, such as training.epochs=5."""
    device: str = "cpu"
    precision: str = FULL

    def seeds_of(self, row: str) -> tuple[int, ...]:
        """The seeds of one of the rows."""
        if isinstance(self.seeds, tuple):
            return self.seeds
        count = find_preset(row, self.preset).num_seeds if self.seeds is None else self.seeds
        if count < 1:
            raise ValueError(f"{count} seeds; expected 1 or more")
        return tuple(range(count))


@dataclass(frozen=True)
class Job:
    """A run to be made."""

    name: str
    preset: str
    seed: int
    out: str
    assignments: tuple[str, ...]
    device: str = "cpu"
    precision: str = FULL

    @property
    def title(self) -> str:
        """Its name on the screen."""
        return f"{self.name} seed {self.seed}"

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.folder_in(Path(self.out))

    def folder_in(self, out: Path) -> Path:
        """The folder of the run below another folder."""
        changes = list(self.assignments)
        return run_folder(out, self.name, self.preset, self.seed, changes, self.precision)

    def command(self) -> list[str]:
        """The command that makes the run."""
        sets = [part for item in self.assignments for part in ("--set", item)]
        return [
            *(sys.executable, "-W", "ignore", "-m", "treefold.lab.cli", "train", self.name),
            *("--preset", self.preset, "--seed", str(self.seed), "--out", self.out),
            *("--device", self.device, "--precision", self.precision),
            *("--threads", "1", "--json-lines", *sets),
        ]

    def is_finished(self, out: Path | None = None) -> bool:
        """True if the run is there, with everything evaluated that the recipe asks for."""
        record = self.record(out)
        if record is None or record.status != "finished":
            return False
        experiment = find_experiment(self.name, self.preset)[0]
        wanted = override(experiment, list(self.assignments))[0].recipe()
        return record.recipe == as_json(wanted)

    def record(self, out: Path | None = None) -> Record | None:
        """The run's record, if it has one that can be read."""
        folder = self.folder_in(out or Path(self.out))
        try:
            return Record.read(folder) if (folder / RECORD_FILE).exists() else None
        except UnreadableRecord:
            return None  # training will report the fault, or start it again


def entries_of(name: str, usual: Entry) -> list[Entry]:
    """The entries of a manifest, or the one of an experiment or row.

    Entries take what they lack from `usual`; `set` is added to the one there.
    """
    if not name.endswith(".toml"):
        return [replace(usual, rows=(name,))]
    path = Path(name)
    try:
        found = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"there is no {path}; give a manifest, an experiment or a row") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    tables = found.get("runs")
    if not isinstance(tables, list) or found.keys() != {"runs"}:
        raise ValueError(f"{path} has {', '.join(found) or 'nothing'}; expected [[runs]] alone")
    return [_entry(usual, table, f"{path}, runs {n}") for n, table in enumerate(tables, start=1)]


def _entry(usual: Entry, table: Mapping[str, Any], where: str) -> Entry:
    known = [entry.name for entry in fields(Entry)]
    if unknown := [key for key in table if key not in known]:
        raise ValueError(f"{where} has {', '.join(unknown)}; expected only {', '.join(known)}")
    given: dict[str, Any]
    given = {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}
    rows = given.pop("rows", ())
    rows = (rows,) if isinstance(rows, str) else rows
    lists: dict[str, tuple[Any, type]] = {"rows": (rows, str), "set": (given.get("set", ()), str)}
    if isinstance(given.get("seeds"), tuple):
        lists["seeds"] = given["seeds"], int
    for key, (values, kind) in lists.items():
        if not isinstance(values, tuple) or not all(type(value) is kind for value in values):
            raise ValueError(f"{where} has {key} = {values!r}; expected a list of {kind.__name__}")
    if not rows:
        raise ValueError(f'{where} names no rows; expected rows = ["EXPERIMENT/ROW", ...]')
    return replace(usual, **{**given, "rows": rows, "set": (*usual.set, *given.get("set", ()))})


def jobs_of(entries: Iterable[Entry], out: Path) -> Iterator[Job]:
    """The runs of all entries in order, of each seed by seed.

    Wrong names, wrong values and missing data raise here, before anything is run.
    """
    named = set[Path]()
    for entry in entries:
        check_precision(entry.precision, entry.device)
        pairs = [(seed, row) for row in entry.rows for seed in entry.seeds_of(row)]
        for seed, row in sorted(pairs, key=lambda pair: pair[0]):
            for experiment in find_experiment(row, entry.preset):
                changed, _ = override(experiment, list(entry.set))
                require_aggregator(changed)
                runner_of(changed, checked_seed(seed)).require_data()
                where = (str(out), entry.set, entry.device, entry.precision)
                job = Job(experiment.name, entry.preset, seed, *where)
                if job.folder in named:
                    raise ValueError(f"{job.title}, {entry.preset} is named twice; name it once")
                named.add(job.folder)
                yield job
