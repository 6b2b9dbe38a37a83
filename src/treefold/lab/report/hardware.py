"""The machines of the records, in words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treefold.lab.report.groups import Group


def machines_of(groups: Iterable[Group]) -> str:
    """What the finished runs were made on, each machine once."""
    found = (run.record.hardware for group in groups for run in group.finished)
    return "; ".join(dict.fromkeys(filter(None, map(_in_words, found)))) or "not recorded"


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


def _in_words(hardware: Any) -> str:
    if not isinstance(hardware, Mapping):
        return str(hardware or "")
    words = {"cpu": "{}", "cores": "{} cores", "threads": "{} threads", "accelerators": "{}"}
    pieces = [form.format(_flat(hardware[key])) for key, form in words.items() if hardware.get(key)]
    return ", ".join(pieces)


def _flat(value: Any) -> str:
    return " + ".join(map(str, value)) if isinstance(value, list) else str(value)
