"""A record: the recipe and the results of a run. One JSON file, readable without torch."""

import dataclasses
import datetime
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from treefold.atomic import storage_errors, write_atomically
from treefold.lab.runs.provenance import commit, hardware, versions
from treefold.plain import decode, encode

_log = logging.getLogger("treefold")

RECORD_FILE = "record.json"
VERSION = 1
_RETIRED = (("task", "max_evaluation_size"),)
"""Part and name of entries of old recipes that never decided anything: left out where a record is
read, and so the old and the new record of a recipe are the same."""
_RENAMED = {
    ("model", "starts_as_copy"): "gru_copy_init",
    ("model", "starts_loud"): "node_head_he_init",
}
"""Part and name in old recipes, and the name today."""

_KINDS: dict[str, type] = {
    **dict.fromkeys(("name", "preset", "status"), str),
    **dict.fromkeys(("recipe", "overrides", "reported", "metrics", "hardware", "machine"), dict),
    **dict.fromkeys(("seed", "epochs"), int),
    "departures": list,
}
"""The types of the entries that every reader relies on."""

Status: TypeAlias = Literal["running", "stopped", "finished", "failed"]


class UnreadableRecord(ValueError):
    """A record is there, but this treefold cannot read it."""


class DamagedRecord(UnreadableRecord):
    """A record is torn, or was never one: nothing can be learned from it."""


@dataclass(frozen=True)
class Record:
    """Everything needed to repeat a run, and its results.

    `recipe` is the whole recipe with all defaults filled in; `overrides` is what the command line
    changed in the preset. `reported` holds the published numbers to compare with, by metric, each
    with its source; `departures` lists where the recipe leaves the published one. `machine` is the
    device, precision, processes and threads; older records have none.
    """

    name: str
    preset: str
    seed: int
    recipe: dict[str, Any]
    overrides: dict[str, Any] = field(default_factory=dict)
    reported: dict[str, Any] = field(default_factory=dict)
    departures: list[str] = field(default_factory=list)
    commit: str = "unknown"
    versions: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    started: str = ""
    seconds: float = 0.0
    epochs: int = 0
    status: Status = "running"
    error: str | None = None
    metrics: dict[str, Any] = field(default_factory=dict)
    version: int = VERSION

    @classmethod
    def begun(cls, name: str, preset: str, seed: int, recipe: dict[str, Any]) -> "Record":
        """The record of a run that begins now: with commit, versions, hardware and time."""
        return cls(
            name=name,
            preset=preset,
            seed=seed,
            recipe=as_json(recipe),
            commit=commit(),
            versions=versions(),
            hardware=hardware(),
            started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        )

    def write(self, folder: Path) -> None:
        """Write `record.json` into a run folder, atomically."""
        # Tuples become lists, which a recipe's types distinguish; NaN and infinity are spelled out.
        entries = encode(json.loads(json.dumps(dataclasses.asdict(self))), RECORD_FILE)
        text = json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        write_atomically(folder / RECORD_FILE, text.encode(errors="backslashreplace"))

    @classmethod
    def read(cls, folder: Path) -> "Record":
        """Read a run folder's `record.json`; a ValueError names what is wrong with a bad one."""
        path = folder / RECORD_FILE
        try:
            if path.exists():
                found = decode(json.loads(path.read_text(encoding="utf-8")))
            else:
                found = _record_of_saved(folder)
        except FileNotFoundError:
            raise ValueError(f"{folder} has no {RECORD_FILE}; give a run folder") from None
        except (TypeError, ValueError) as error:
            raise DamagedRecord(f"{path} is not JSON ({error}); restore it or run again") from None
        if found is None:
            raise ValueError(f"{folder} holds a model without a task; give a run, or a saved run")
        if not isinstance(found, dict) or found.get("version") != VERSION:
            version = found.get("version") if isinstance(found, dict) else None
            raise UnreadableRecord(f"{path} has version {version}; this treefold reads {VERSION}")
        known = {entry.name for entry in dataclasses.fields(cls)}
        required = {
            entry.name
            for entry in dataclasses.fields(cls)
            if entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        }
        if unknown := sorted(found.keys() - known):
            raise UnreadableRecord(
                f"{path} has unknown entries {unknown}; expected {sorted(known)}"
            )
        if missing := sorted(required - found.keys()):
            raise UnreadableRecord(f"{path} lacks {missing}; it is incomplete")
        for name, kind in _KINDS.items():
            if not isinstance(found.get(name, kind()), kind):
                value = f"{found[name]!r:.60}"
                raise UnreadableRecord(f"{path} has `{name}` {value}; expected {kind.__name__}")
        return cls(**{**found, "recipe": _with_names_of_today(found["recipe"])})


def as_json(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe as it will be read back from a record."""
    plain: dict[str, Any] = json.loads(json.dumps(recipe))
    return plain


def _with_names_of_today(recipe: dict[str, Any]) -> dict[str, Any]:
    return {
        part: {
            _RENAMED.get((part, name), name): value
            for name, value in entries.items()
            if (part, name) not in _RETIRED
        }
        if isinstance(entries, dict)
        else entries
        for part, entries in recipe.items()
    }


def sound_record(folder: Path) -> Record | None:
    """The record of a run folder; None if it has none, or a damaged one."""
    if not (folder / RECORD_FILE).exists():
        return None
    try:
        return Record.read(folder)
    except DamagedRecord:
        return None


def set_damaged_aside(folder: Path) -> None:
    """Rename a run's record if it is damaged, to make place for another; warns."""
    try:
        Record.read(folder)
    except DamagedRecord as damage:
        path = folder / f"{RECORD_FILE}.damaged"
        with storage_errors(path):
            (folder / RECORD_FILE).replace(path)
        _log.warning("%s; it is now called %s", damage, path.name)
    except ValueError:
        return  # there is none, or one that another treefold reads


def find_runs(folder: Path) -> Iterator[Path]:
    """All run folders below `folder` (itself included), in order."""
    yield from sorted(path.parent for path in folder.rglob(RECORD_FILE))


def _record_of_saved(folder: Path) -> Any:
    """The record in a run that was saved as a model; a FileNotFoundError if there is none."""
    # Reports read records without torch, which saved models need.
    from treefold.saving import is_saved, read_config  # noqa: PLC0415

    if not is_saved(folder):
        raise FileNotFoundError(folder)
    return read_config(folder).get("record")
