"""Arrow columns as rows to fold, and what is wrong with the rows that are not among them."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from treefold.distributed.model_fold import ModelFold


class CheckedRows(NamedTuple):
    """The good rows of a column as a tensor, and the others with what is wrong with each."""

    x: Tensor
    good: np.ndarray
    """Places of the good rows in the column, in order."""
    bad: np.ndarray
    problems: pa.Array
    """One entry for each bad row, in their order."""


def check_type(kind: pa.DataType, fold: ModelFold, column: str, where: str = "") -> None:
    """Refuse a column that the model does not take; nulls alone may pass."""
    plain = kind.storage_type if isinstance(kind, pa.ExtensionType) else kind
    is_vectors = _is_list_of_numbers(plain)
    if pa.types.is_null(plain) or (is_vectors if fold.table is None else _is_integer(plain)):
        return
    if fold.table is None:
        expected = f"lists of {fold.in_channels} floating-point numbers"
    else:
        expected = f"integers from 0 to {len(fold.table) - 1}, which the model encodes"
    message = f"{where}column {column!r} holds {kind}; expected {expected}"
    if fold.table is not None and is_vectors:
        message += "; if these are states that this model has made, say so: states=True, --states"
    if pa.types.is_floating(plain):
        message += "; cast whole numbers first (pandas makes floats of integers with NaN)"
    raise ValueError(message)


def check_rows(column: pa.ChunkedArray | pa.Array, fold: ModelFold) -> CheckedRows:
    """Sort good rows from bad: integers in range, or lists of the right width without NaN."""
    array = one_array(column)
    if fold.table is None:
        return _check_vectors(array, fold.in_channels)
    return _check_integers(array, len(fold.table))


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece, without extension types and dictionaries."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def as_column(rows: Tensor, present: Tensor | None = None) -> pa.Array:
    """Numbers, or lists of fixed length, as a column; null where a row is not `present`."""
    mask = None if present is None else ~present.numpy()
    if rows.dim() == 1:
        return pa.array(rows.numpy(), mask=mask)
    numbers, nulls = pa.array(rows.flatten().numpy()), None if mask is None else pa.array(mask)
    return pa.FixedSizeListArray.from_arrays(numbers, rows.shape[1], mask=nulls)


def as_rows(columns: list[pa.Array]) -> Tensor:
    """The rows of columns without nulls, one column after the other, as a tensor of its own."""
    parts = []
    for column in columns:
        if pa.types.is_fixed_size_list(column.type):
            flat = column.flatten().to_numpy(zero_copy_only=True)
            parts.append(flat.reshape(len(column), column.type.list_size))
        else:
            parts.append(column.to_numpy(zero_copy_only=True))
    return torch.from_numpy(np.concatenate(parts))


def _check_integers(array: pa.Array, num_values: int) -> CheckedRows:
    wide = pa.uint64() if pa.types.is_uint64(array.type) else pa.int64()  # holds all of them
    array = array.cast(wide)
    lowest, beyond = pa.scalar(0, wide), pa.scalar(num_values, wide)
    is_good = _numpy(pc.and_(pc.greater_equal(array, lowest), pc.less(array, beyond)))
    good, bad = np.flatnonzero(is_good), np.flatnonzero(~is_good)
    found = array.take(pa.array(bad)).cast(pa.string())
    told = pc.binary_join_element_wise(
        found, f"expected an integer from 0 to {num_values - 1}", ", "
    )
    x = array.take(pa.array(good)).cast(pa.int64())
    return CheckedRows(as_rows([x]), good, bad, pc.coalesce(told, "null"))


def _check_vectors(array: pa.Array, width: int) -> CheckedRows:
    if pa.types.is_null(array.type):
        array = array.cast(pa.list_(pa.float32()))
    widths = pc.list_value_length(array)
    fits = _numpy(pc.equal(widths, width))
    fitting, others = np.flatnonzero(fits), np.flatnonzero(~fits)
    items = pc.list_flatten(array.take(pa.array(fitting))).cast(pa.float32())
    values = items.to_numpy(zero_copy_only=False).reshape(-1, width)  # null becomes NaN
    finite = np.isfinite(values)
    is_good = finite.all(1)
    wrong = np.flatnonzero(~is_good)
    first = finite[wrong].argmin(1)
    told = [
        f"{values[row, place]} at place {place}, expected a number"
        for row, place in zip(wrong, first, strict=True)
    ]
    found = widths.take(pa.array(others)).cast(pa.string())
    of_others = pc.binary_join_element_wise("width ", found, f", expected {width}", "")
    bad = np.concatenate([others, fitting[wrong]])
    problems = pa.concat_arrays([pc.coalesce(of_others, "null"), pa.array(told, pa.string())])
    order = bad.argsort()
    x = torch.from_numpy(values[is_good])
    return CheckedRows(x, fitting[is_good], bad[order], problems.take(pa.array(order)))


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def _is_list_of_numbers(kind: pa.DataType) -> bool:
    is_list = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return bool(is_list and pa.types.is_floating(kind.value_type))


def _numpy(mask: pa.Array) -> np.ndarray:
    found: np.ndarray = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found
