"""Arrow columns as rows to fold, and what is wrong with the rows that are not among them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from treefold.distributed.model_fold import ModelFold


@dataclass(frozen=True)
class CheckedRows:
    """The good rows of a column as a tensor, and the others with what is wrong with each."""

    x: Tensor
    good: np.ndarray
    """Places of the good rows in the column."""
    problems: dict[int, str]
    """By place in the column."""


def check_type(kind: pa.DataType, fold: ModelFold, column: str, where: str = "") -> None:
    """Refuse columns that hold neither integers nor lists of numbers; nulls alone may pass."""
    plain = _storage(kind)
    if pa.types.is_integer(plain) or pa.types.is_null(plain) or _is_list_of_numbers(plain):
        return
    message = (
        f"{where}column {column!r} holds {kind}; expected integers from 0 to "
        f"{fold.num_values - 1}, or lists of {fold.channels} floating-point numbers"
    )
    if pa.types.is_floating(plain):
        message += "; cast whole numbers first (pandas makes floats of integers with NaN)"
    raise ValueError(message)


def check_rows(column: pa.ChunkedArray | pa.Array, fold: ModelFold) -> CheckedRows:
    """Sort good rows from bad: integers in range, or lists of the right width without NaN."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    problems = dict.fromkeys(_true(array.is_null()), "null")
    if pa.types.is_integer(array.type) or pa.types.is_null(array.type):
        return _check_integers(array, fold, problems)
    return _check_lists(array, fold, problems)


def as_lists(states: Tensor, present: Tensor | None = None) -> pa.Array:
    """A list of fixed length per state, null where it is not `present`."""
    mask = None if present is None else pa.array(~present.numpy())
    numbers = pa.array(states.flatten().numpy())
    return pa.FixedSizeListArray.from_arrays(numbers, states.shape[1], mask=mask)


def _check_integers(array: pa.Array, fold: ModelFold, problems: dict[int, str]) -> CheckedRows:
    wide = pa.uint64() if pa.types.is_uint64(array.type) else pa.int64()  # holds all of them
    array = array.cast(wide)
    lowest, beyond = pa.scalar(0, wide), pa.scalar(fold.num_values, wide)
    in_range = pc.and_(pc.greater_equal(array, lowest), pc.less(array, beyond))
    for place in _true(pc.invert(in_range)):
        found = array[place].as_py()
        problems[place] = f"{found}, expected an integer from 0 to {fold.num_values - 1}"
    good = _others(len(array), problems)
    values = array.take(pa.array(good)).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return CheckedRows(torch.from_numpy(values.copy()), good, problems)


def _check_lists(array: pa.Array, fold: ModelFold, problems: dict[int, str]) -> CheckedRows:
    widths = pc.list_value_length(array)
    for place in _true(pc.not_equal(widths, fold.channels)):
        problems[place] = f"width {widths[place].as_py()}, expected {fold.channels}"
    fitting = _others(len(array), problems)
    items = pc.list_flatten(array.take(pa.array(fitting))).cast(pa.float32())
    values = items.to_numpy(zero_copy_only=False).reshape(-1, fold.channels)  # null becomes NaN
    finite = np.isfinite(values)
    for row in np.flatnonzero(~finite.all(1)):
        item = int(np.flatnonzero(~finite[row])[0])
        problems[int(fitting[row])] = f"{values[row, item]} at place {item}, expected a number"
    kept = finite.all(1)
    return CheckedRows(torch.from_numpy(values[kept].copy()), fitting[kept], problems)


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.ExtensionType) else kind


def _is_list_of_numbers(kind: pa.DataType) -> bool:
    is_list = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return bool(is_list and pa.types.is_floating(kind.value_type))


def _true(mask: pa.Array) -> list[int]:
    found: list[int] = np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
    return found


def _others(count: int, problems: dict[int, str]) -> np.ndarray:
    good = np.ones(count, dtype=bool)
    good[list(problems)] = False
    return np.flatnonzero(good)
