"""Overrides from the command line: `training.epochs=5`, typed by the recipe's dataclasses."""

import dataclasses
import json
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from treefold.lab.experiments.recipe import Experiment

PARTS = ("task", "aggregator", "model", "training", "evaluation")


def override(experiment: Experiment, assignments: list[str]) -> tuple[Experiment, dict[str, Any]]:
    """The experiment with these assignments made, and the new values by key."""
    made = {}
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        if not sign:
            raise ValueError(f"{assignment!r} is no assignment; expected key=value")
        experiment, made[key] = _assign(experiment, key, text)
    return experiment.restate(experiment), made


def keys_of(experiment: Experiment) -> list[str]:
    """Everything that can be overridden."""
    return [
        f"{part}.{entry.name}"
        for part in PARTS
        for entry in dataclasses.fields(getattr(experiment, part))
    ]


def _assign(experiment: Experiment, key: str, text: str) -> tuple[Experiment, Any]:
    part_name, _, rest = key.partition(".")
    field, _, option = rest.partition(".")
    known = keys_of(experiment)
    if f"{part_name}.{field}" not in known or (option and field != "options"):
        near = get_close_matches(key, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(known)}"
        raise ValueError(f"unknown key {key!r}; {hint}")
    part = getattr(experiment, part_name)
    if option:
        value = _literal(text)
        changed = dataclasses.replace(part, options={**part.options, option: value})
    else:
        value = _parse(text, get_type_hints(type(part))[field], key)
        changed = dataclasses.replace(part, **{field: value})
    return dataclasses.replace(experiment, **{part_name: changed}), value


def _parse(text: str, kind: Any, key: str) -> Any:
    if isinstance(kind, UnionType):
        if text.lower() in ("none", "null") and NoneType in get_args(kind):
            return None
        kind = next(choice for choice in get_args(kind) if choice is not NoneType)
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if get_origin(kind) is tuple:
            return tuple(get_args(kind)[0](item) for item in text.strip("[]()").split(",") if item)
        if kind in (int, float, str):
            return kind(text)
        return dict(json.loads(text))
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{key} is {text!r}; expected {_in_words(kind)}") from None


def _in_words(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"{get_args(kind)[0].__name__}s with commas between them"
    if get_origin(kind) is dict:
        return 'names with values, such as {"law_nodes": 64}'
    return getattr(kind, "__name__", str(kind))


def _literal(text: str) -> Any:
    """A number, true, false or null as JSON has it; anything else is a string."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
