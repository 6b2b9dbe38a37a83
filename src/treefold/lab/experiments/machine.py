"""The machine in a record: precision and processes decide the numbers of a run."""

import dataclasses
from pathlib import Path
from typing import Any

from treefold.lab.runs import FULL, Record

CHANGE_NUMBERS = ("precision", "processes", "threads")


def as_override(machine: dict[str, Any]) -> dict[str, Any]:
    """A precision that is not the usual one, in the words of an override: it names a variant."""
    precision = machine.get("precision", FULL)
    return {} if precision == FULL else {"precision": precision}


def on_machine(
    found: Record, machine: dict[str, Any], folder: Path, other_processes: bool
) -> Record:
    """The record of a run to resume on this machine, or a ValueError if it must not be.

    It may be resumed with another number of threads, which changes how sums are rounded, and with
    `other_processes` of processes; the record then notes it. Older records have no machine, and
    are resumed on any.
    """
    known = {name: found.machine[name] for name in CHANGE_NUMBERS if name in found.machine}
    differing = [name for name, begun in known.items() if machine.get(name, begun) != begun]
    if not differing or (differing == ["threads"] and found.status == "finished"):
        return found
    if set(differing) <= ({"processes", "threads"} if other_processes else {"threads"}):
        notes = [
            f"resumed after {found.epochs} epochs with {machine[name]} {name} instead of "
            f"{known[name]}"
            for name in differing
        ]
        departures = [*found.departures, *notes]
        return dataclasses.replace(found, machine=machine, departures=departures)
    differing = [name for name in differing if name != "threads"]
    was, now = (" and ".join(f"{name} {of[name]}" for name in differing) for of in (known, machine))
    raise ValueError(
        f"{folder} holds a run begun with {was}, not {now}, which would change its numbers; resume "
        f"it with --{differing[0]} {known[differing[0]]}, or give another --out"
    )
