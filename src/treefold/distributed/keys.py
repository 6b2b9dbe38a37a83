"""Keys of tables: sorted, cut into runs of equal ones, found again, hashed. No Python per key."""

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ODD, _PRIME = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x100000001B3)


def sort_by_key(keys: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The stable order that sorts keys, nulls last, and where in it each of them begins."""
    order = pc.array_sort_indices(keys, null_placement="at_end")
    return order.to_numpy().astype(np.int64), first_of_runs(keys.take(order))


def first_of_runs(keys: pa.Array) -> np.ndarray:
    """The places at which a key differs from the one before."""
    before, after = keys[:-1], keys[1:]  # of no keys, none
    both = pc.not_equal(before, after), pc.not_equal(before.is_null(), after.is_null())
    differs = pc.coalesce(*both).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.concatenate([[True] * bool(len(keys)), differs]))


def sizes_of(starts: np.ndarray, total: int) -> np.ndarray:
    """The lengths of runs that begin at `starts` and cover `total` places."""
    return np.diff(starts, append=total)


def places_of(splitters: pa.Array, keys: pa.Array) -> list[int]:
    """The places where sorted keys are cut before each splitter; nulls are last."""
    count = len(keys) - keys.null_count
    if pa.types.is_primitive(keys.type) and not pa.types.is_boolean(keys.type):
        plain = (each.to_numpy(zero_copy_only=False) for each in (keys[:count], splitters))
        found: list[int] = np.searchsorted(*plain).tolist()
        return found
    return [
        bisect_left(range(count), splitter, key=lambda place: keys[place].as_py())
        for splitter in splitters.to_pylist()
    ]


def hash_of(keys: pa.Array) -> np.ndarray:
    """A number for each key, the same on every machine; equal keys have equal numbers."""
    kind = keys.type
    if pa.types.is_floating(kind):
        numbers = pc.add(keys.cast(pa.float64()), 0.0).view(pa.int64())  # one zero
    elif pa.types.is_primitive(kind) and not pa.types.is_boolean(kind):
        numbers = keys.view(pa.type_for_alias(f"int{kind.bit_width}")).cast(pa.int64())
    else:
        return _mixed(_sums_of_bytes(keys))
    return _mixed(numbers.fill_null(0).to_numpy().view(np.uint64))


def _sums_of_bytes(keys: pa.Array) -> np.ndarray:
    """Each text's bytes times powers of a prime, summed."""
    texts = keys if _is_bytes(keys.type) else keys.cast(pa.string())
    texts = texts.cast(pa.large_binary()).fill_null(b"")
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    held = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    sizes, ends = np.diff(ends), ends - ends[0]
    powers = np.cumprod(np.full(max(sizes, default=0), _PRIME))
    place = np.arange(len(held)) - np.repeat(ends[:-1], sizes)
    terms = (held.astype(np.uint64) + np.uint64(1)) * powers[place]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])
    found: np.ndarray = sums[ends[1:]] - sums[ends[:-1]]
    return found


def _is_bytes(kind: pa.DataType) -> bool:
    return not (pa.types.is_boolean(kind) or pa.types.is_decimal(kind))


def _mixed(numbers: np.ndarray) -> np.ndarray:
    for _ in range(2):
        numbers = (numbers + np.uint64(1)) * _ODD
        numbers = numbers ^ (numbers >> np.uint64(32))
    return numbers
