"""Requirements on a table, checked against its schema before any work begins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from treefold.distributed.columns import check_type
from treefold.distributed.model_fold import ModelFold

STATE, NUM_ROWS, NUM_BAD, BAD, ANSWER = "state", "num_rows", "num_bad", "bad", "answer"
"""Columns of partial and final results, besides the key's."""

NO_KEY = "no_key"
"""Column of partial results: True where the key is null and its column holds a placeholder.
Ray would partition integer keys in another way where a block has a null among them, and equal keys
of two blocks would not meet."""

FILE, ROW, PROBLEM = "file", "row", "problem"
"""Columns of the table of bad rows, besides the key's."""

TAKEN = (STATE, NUM_ROWS, NUM_BAD, BAD, ANSWER, NO_KEY, FILE, ROW, PROBLEM)

KEY_TYPES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Any]], ...] = (
    (pa.types.is_integer, lambda _: 0),
    (pa.types.is_float32, lambda _: 0.0),
    (pa.types.is_float64, lambda _: 0.0),
    (pa.types.is_boolean, lambda _: False),
    (pa.types.is_string, lambda _: ""),
    (pa.types.is_large_string, lambda _: ""),
    (pa.types.is_binary, lambda _: b""),
    (pa.types.is_large_binary, lambda _: b""),
    (pa.types.is_fixed_size_binary, lambda kind: bytes(kind.byte_width)),
    (pa.types.is_temporal, lambda _: 0),
    (pa.types.is_decimal, lambda _: 0),
    (pa.types.is_null, lambda _: None),
)
"""Types of keys, each with a value that can stand in for a null."""


def check_names(key: str, on: str) -> None:
    """Refuse a key with the name of a column of the results."""
    if key in TAKEN:
        raise ValueError(
            f"the key is called {key!r}, like a column of the result or of its bad rows; rename it "
            f"to something else than {', '.join(TAKEN)}"
        )
    if key == on:
        raise ValueError(f"the key and the column to fold are both {key!r}; name two columns")


def check_schema(schema: pa.Schema, path: Path, key: str, on: str, fold: ModelFold) -> pa.DataType:
    """The type of the keys, dictionaries decoded; a ValueError if a column cannot be used."""
    for column in (key, on):
        found = schema.names.count(column)
        if not found:
            raise ValueError(f"{path} has no column {column!r}; it has {', '.join(schema.names)}")
        if found > 1:
            raise ValueError(
                f"{path} has {found} columns called {column!r}, expected one; rename the others"
            )
    check_type(schema.field(on).type, fold, on, f"{path}: ")
    kind = schema.field(key).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(is_one(plain) for is_one, _ in KEY_TYPES):
        raise ValueError(
            f"{path}: the key {key!r} holds {kind}; expected integers, texts, dates or other "
            "single values; make a column of such values to group by"
        )
    return plain


def common_key_type(kinds: dict[pa.DataType, Path], key: str) -> pa.DataType:
    """The one type that keys have in all files; files of null keys alone go with any.

    `kinds` are the types found, each with a file that has it.
    """
    found = {kind: path for kind, path in kinds.items() if not pa.types.is_null(kind)}
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise ValueError(
            f"the key {key!r} holds {one} in {first} and {other} in {second}; expected one type "
            "in all files; write them with the same type"
        )
    return next(iter(found), pa.int64())


def plain_keys(keys: pa.Array) -> pa.Array:
    """Keys with dictionaries decoded."""
    return keys.cast(keys.type.value_type) if pa.types.is_dictionary(keys.type) else keys


def without_nulls(keys: pa.Array) -> pa.Array:
    """Keys with a placeholder for each null; the column `NO_KEY` marks them."""
    stand_in = next(value(keys.type) for is_one, value in KEY_TYPES if is_one(keys.type))
    return keys.fill_null(pa.scalar(stand_in, keys.type))
