"""Keys are sorted, cut and hashed alike whatever holds them."""

from datetime import date
from decimal import Decimal

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")

from treefold.distributed.keys import hash_of, places_of, sizes_of, sort_by_key

KEYS = {
    "integers": (pa.int64(), [3, -1, None, 3, 7]),
    "narrow": (pa.int16(), [3, -1, None, 3, 7]),
    "floats": (pa.float64(), [3.5, -1.0, None, 3.5, 7.0]),
    "texts": (pa.string(), ["b", "", None, "b", "bb"]),
    "bytes": (pa.binary(), [b"b", b"", None, b"b", b"bb"]),
    "days": (pa.date32(), [date(2026, 1, day) if day else None for day in (3, 1, 0, 3, 7)]),
    "decimals": (pa.decimal128(9, 2), [Decimal(n) if n else None for n in (3, 1, 0, 3, 7)]),
    "booleans": (pa.bool_(), [True, False, None, True, True]),
}


@pytest.mark.parametrize("name", KEYS)
def test_equal_keys_lie_together_in_their_order_and_nulls_come_last(name):
    kind, values = KEYS[name]
    order, starts = sort_by_key(pa.array(values, kind))
    runs = np.split(order, starts[1:])
    known = sorted({value for value in values if value is not None})
    expected = [[n for n, value in enumerate(values) if value == key] for key in [*known, None]]
    assert [run.tolist() for run in runs] == expected
    assert sizes_of(starts, len(order)).tolist() == [len(run) for run in expected]


def test_no_keys_make_no_runs():
    order, starts = sort_by_key(pa.array([], pa.string()))
    assert len(order) == len(starts) == 0


@pytest.mark.parametrize("name", KEYS)
def test_sorted_keys_are_cut_before_each_splitter(name):
    kind, values = KEYS[name]
    keys = pa.array(values, kind)
    keys = keys.take(pa.array(sort_by_key(keys)[0]))
    splitters = keys.drop_null().unique()
    expected = [keys.to_pylist().index(splitter) for splitter in splitters.to_pylist()]
    assert places_of(splitters, keys) == expected
    assert places_of(splitters, keys[:0]) == [0] * len(splitters)


@pytest.mark.parametrize("name", KEYS)
def test_equal_keys_have_equal_hashes_wherever_they_are_and_others_differ(name):
    kind, values = KEYS[name]
    keys = pa.array(values, kind)
    hashes = hash_of(keys)
    assert hash_of(keys[1:]).tolist() == hashes[1:].tolist()
    known = [value for value in values if value is not None]
    found = hash_of(pa.array(known, kind)).tolist()
    assert len(set(found)) == len(set(known))
    assert found[0] == hashes[0]


def test_both_zeros_are_one_key():
    hashes = hash_of(pa.array([0.0, -0.0]))
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("keys", [range(10_000), [f"user-{n}" for n in range(10_000)]])
def test_hashes_spread_keys_evenly(keys):
    counts = np.bincount(hash_of(pa.array(keys)) % np.uint64(16), minlength=16)
    assert counts.min() > 500
    assert counts.max() < 750
