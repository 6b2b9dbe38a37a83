import json
import math
import struct
from collections import Counter, OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treefold.plain import Reference, decode, encode


def same(a, b):
    """Equal in type, in order, and to the bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b)
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def through_json(value):
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


numbers = st.integers() | st.floats() | st.floats(width=64, allow_nan=True).map(lambda x: -x)
keys = st.text() | st.sampled_from(["$tuple", "$dict", "$"]) | st.integers() | st.booleans()
leaves = st.none() | st.booleans() | numbers | st.text() | st.builds(Reference, st.text())
plain = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(keys, inner)
        | st.dictionaries(keys, st.integers()).map(Counter)
    ),
    max_leaves=10,
)


@settings(deadline=None, max_examples=60)
@given(plain)
def test_plain_data_comes_back_the_same(value):
    assert same(through_json(value), value)


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_floats_come_back_bit_for_bit(bits):
    (value,) = struct.unpack(">d", struct.pack(">Q", bits))
    assert struct.pack(">d", through_json(value)) == struct.pack(">Q", bits)


@pytest.mark.parametrize("bits", [0x7FF8000000000001, 0xFFF8000000000000, 0x7FF8000000000000])
def test_every_nan_keeps_its_sign_and_payload(bits):
    (value,) = struct.unpack(">d", struct.pack(">Q", bits))
    assert struct.pack(">d", through_json(value)) == struct.pack(">Q", bits)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"a": [1, 0.1, None, True, "x"]}, {"a": [1, 0.1, None, True, "x"]}),
        ((0.9, 0.999), {"$tuple": [0.9, 0.999]}),
        ({3: "c"}, {"$dict": [[3, "c"]]}),
        ({"$tuple": 1}, {"$dict": [["$tuple", 1]]}),
        ([math.nan, math.inf, -math.inf], [{"$float": x} for x in ("nan", "inf", "-inf")]),
        (Counter({5: 1}), {"$counter": [[5, 1]]}),
        (Reference("model/w"), {"$reference": "model/w"}),
    ],
)
def test_the_json_is_readable(value, written):
    assert encode(value) == written


def test_subclasses_are_taken_for_what_they_subclass():
    value = OrderedDict(x=np.float64(0.1), y=np.float64("nan"))
    assert same(through_json(value), {"x": 0.1, "y": math.nan})


@pytest.mark.parametrize(
    ("value", "entry"),
    [
        ({"a": [0, {1, 2}]}, "scheduler/a/1 is of type set"),
        ({"f": len}, "scheduler/f is of type builtin_function_or_method"),
        ({3: (np.float32(1),)}, "scheduler/3/0 is of type float32"),
        ({frozenset(): 1}, "a key of scheduler is of type frozenset"),
    ],
)
def test_what_is_not_plain_is_named(value, entry):
    with pytest.raises(TypeError, match=entry):
        encode(value, "scheduler")


def test_an_unknown_tag_is_refused():
    with pytest.raises(ValueError, match=r"unknown tag '\$set'"):
        decode({"$set": [1]})
