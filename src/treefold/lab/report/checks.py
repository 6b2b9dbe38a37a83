"""What the report relies on in a record; anything else in it is only shown."""

from collections.abc import Mapping
from typing import Any

from treefold.lab.runs import Record

BY_SIZE = "accuracy"
BALANCED_BY_SIZE = "balanced_accuracy"
SECONDS_BY_SIZE = "seconds_per_epoch_by_size"
RATIOS = "log10_ratio"
RATIOS_OF_MEANS = "log10_ratio_of_means"


def check_record(record: Record) -> None:
    """A ValueError that names the first entry a report cannot use."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "name": str,
        "preset": str,
        "status": str,
        "seed": int,
        "epochs": int,
        "seconds": (int, float),
        "recipe": dict,
        "overrides": dict,
        "reported": dict,
        "metrics": dict,
        "departures": list,
    }
    for name, kind in kinds.items():
        if not isinstance(getattr(record, name), kind):
            raise ValueError(f"`{name}` is {getattr(record, name)!r:.60}; {_EXPECTED[kind]}")
    if not record.name.strip("/ "):
        raise ValueError("`name` is empty; expected experiment/row")
    for metric, entry in record.reported.items():
        if not isinstance(entry, Mapping):
            raise ValueError(f"`reported {metric}` is {entry!r:.60}; expected value and source")
        _require_number(f"reported {metric}", entry, "value")
        _require_number(f"reported {metric}", entry, "spread")
    for metric, value in record.metrics.items():
        if metric in (BY_SIZE, BALANCED_BY_SIZE):
            for size in _sizes(metric, value):
                _require_number(metric, value, size)
        elif metric == SECONDS_BY_SIZE:
            for size in _sizes(metric, value):
                _require_repeats(value, size)
        elif metric in (RATIOS, RATIOS_OF_MEANS):
            for split in _splits(metric, value):
                _require_number(metric, value, split)
        elif "@" in metric or metric in _SCALARS:
            _require_number("metrics", record.metrics, metric)


def is_number(value: Any) -> bool:
    """Whether it is an int or a float, and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether it is a number that can be averaged and drawn."""
    return is_number(value) and -1e300 < value < 1e300


_SCALARS = ("num_parameters", "seconds_per_epoch", "validation_accuracy")
_EXPECTED: dict[type | tuple[type, ...], str] = {
    str: "expected text",
    int: "expected a whole number",
    (int, float): "expected a number",
    dict: "expected entries by name",
    list: "expected a list",
}


def _sizes(metric: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping) or not all(s.isdecimal() and int(s) > 0 for s in value):
        raise ValueError(f"`{metric}` is {value!r:.60}; expected numbers by set size")
    return list(value)


def _splits(metric: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        raise ValueError(f"`{metric}` is {value!r:.60}; expected numbers by split")
    return list(value)


def _require_number(what: str, entries: Mapping[str, Any], name: str) -> None:
    found = entries.get(name)
    # A metric that was not finite may be null in JSON: missing, not damaged.
    if found is not None and not is_number(found):
        raise ValueError(f"`{what}` has {found!r:.60} for `{name}`; expected a number")


def _require_repeats(value: Mapping[str, Any], size: str) -> None:
    repeats = value[size]
    if not isinstance(repeats, list) or not all(map(is_number, repeats)):
        raise ValueError(
            f"`{SECONDS_BY_SIZE}` has {repeats!r:.60} for `{size}`; expected a list of seconds"
        )
