"""Plain data as strict JSON and back, exactly.

JSON has no NaN, no tuples, and no keys but text. These are spelled out as an object with one key:

    (0.9, 0.999)    {"$tuple": [0.9, 0.999]}
    {3: "c"}        {"$dict": [[3, "c"]]}
    nan, inf        {"$float": "nan"}, {"$float": "inf"}

Finite floats need nothing: Python writes the shortest digits that read back as the same bits.
"""

import math
import struct
from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeAlias

# None, bool, int, float, str, Reference, and lists, tuples, dicts and Counters of these.
Plain: TypeAlias = Any
# What the json module writes with allow_nan=False.
StrictJSON: TypeAlias = Any


@dataclass(frozen=True)
class Reference:
    """Stands in plain data for something that is kept elsewhere, under this name."""

    name: str


def encode(value: Plain, where: str = "value") -> StrictJSON:
    """Plain data as strict JSON, or a TypeError that names the entry below `where` that is not.

    Subclasses of numbers, text and dicts are taken for what they subclass, Counters excepted.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": _spell(value)}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Reference):
        return {"$reference": value.name}
    if isinstance(value, Counter):
        return {"$counter": _encode_items(value, where)}
    if isinstance(value, dict):
        return _encode_dict(value, where)
    if type(value) in (list, tuple):
        entries = [encode(entry, f"{where}/{place}") for place, entry in enumerate(value)]
        return entries if isinstance(value, list) else {"$tuple": entries}
    raise TypeError(
        f"{where} is of type {type(value).__qualname__}, which JSON cannot hold; "
        "expected numbers, text, None, and lists, tuples and dicts of these"
    )


def decode(value: StrictJSON) -> Plain:
    """Invert `encode`, in new containers; a ValueError for anything it never writes."""
    if isinstance(value, list):
        return [decode(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("$"):
        return {key: decode(entry) for key, entry in value.items()}
    content = value[tag]
    match tag:
        case "$float":
            return _read_spelt(content)
        case "$tuple":
            return tuple(decode(entry) for entry in content)
        case "$dict":
            return {decode(key): decode(entry) for key, entry in content}
        case "$counter":
            return Counter({decode(key): decode(entry) for key, entry in content})
        case "$reference":
            return Reference(content)
    raise ValueError(f"unknown tag {tag!r} in plain data; was it written by a newer treefold?")


def _encode_dict(value: dict[Any, Any], where: str) -> StrictJSON:
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {str(key): encode(entry, f"{where}/{key}") for key, entry in value.items()}
    return {"$dict": _encode_items(value, where)}


def _encode_items(value: dict[Any, Any], where: str) -> list[Any]:
    return [
        [encode(key, f"a key of {where}"), encode(entry, f"{where}/{key}")]
        for key, entry in value.items()
    ]


def _spell(value: float) -> str:
    """`nan`, `inf`, `-inf`; the bits in hexadecimal for NaNs other than the usual one."""
    name, bits = float.__repr__(value), struct.pack(">d", value)
    return name if bits == struct.pack(">d", float(name)) else bits.hex()


def _read_spelt(text: str) -> float:
    if text in ("nan", "inf", "-inf"):
        return float(text)
    (value,) = struct.unpack(">d", bytes.fromhex(text))
    return float(value)
