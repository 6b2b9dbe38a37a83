"""Loops that are compiled say so, if it takes long."""

import time

import pytest

pytest.importorskip("numba")
from treefold.kernels import compiling


def test_a_first_call_that_takes_long_says_so_and_later_ones_do_not(caplog, monkeypatch):
    monkeypatch.setattr(compiling, "SECONDS_OF_SILENCE", 0.01)
    monkeypatch.setattr(compiling, "_called", set())
    for _ in range(2):
        with compiling.tells_if_slow("a call"):
            time.sleep(0.2)
    monkeypatch.setattr(compiling, "SECONDS_OF_SILENCE", 100.0)
    with compiling.tells_if_slow("another"):
        pass
    assert [record.message for record in caplog.records] == [
        "treefold: compiling loops for this machine; once, and up to a minute"
    ]
