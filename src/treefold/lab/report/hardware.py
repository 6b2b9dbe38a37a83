"""The machines of the records, in words."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treefold.lab.report.checks import is_finite
from treefold.lab.report.groups import Group
from treefold.lab.report.runs import Run


def machines_of(groups: Iterable[Group]) -> str:
    """What the finished runs were made on, each machine once."""
    found = (machine_of(run) for group in groups for run in group.finished)
    return "; ".join(dict.fromkeys(filter(None, found))) or "not recorded"


def machine_of(run: Run) -> str:
    """The machine of a run, its threads and kernels, and the load where it was busy with others.

    The load counts what this process did in the minute before, so that of its own threads is not
    another's.
    """
    machine: Any = run.record.machine or {}
    hardware: Any = run.record.hardware
    if not isinstance(hardware, Mapping) or not isinstance(machine, Mapping):
        return str(hardware or "")
    known: dict[str, Any] = {
        "threads": machine.get("threads"),
        "kernels": machine.get("kernels"),
        **hardware,
    }
    load, threads = known.pop("load", None), known["threads"] or 1
    busy = is_finite(load) and is_finite(threads) and load > threads + 0.5
    return _in_words({**known, "load": load if busy else None})


def alike(groups: Sequence[Group]) -> list[list[Group]]:
    """The groups whose times may stand in one column: those of one machine, threads and load."""
    found: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        found[machines_of([group])].append(group)
    return list(found.values())


def conditions_of(groups: Sequence[Group]) -> str:
    """What an epoch is and what it was timed on."""
    shapes = {
        (run.option("task", "num_train"), run.option("training", "batch_size"))
        for group in groups
        for run in group.finished
    }
    words = [
        f"{sets} sets an epoch, in batches of {size}" for sets, size in sorted(shapes, key=str)
    ]
    return f"{'; '.join(words)}; on {machines_of(groups)}."


def _in_words(hardware: Mapping[str, Any]) -> str:
    words = {"cpu": "{}", "cores": "{} cores", "threads": "{} threads", "accelerators": "{}"}
    words |= {"kernels": "kernels of {}", "load": "load {}"}
    pieces = [form.format(_flat(hardware[key])) for key, form in words.items() if hardware.get(key)]
    return ", ".join(pieces)


def _flat(value: Any) -> str:
    return " + ".join(map(str, value)) if isinstance(value, list) else str(value)
