"""Loops that are compiled say so, if it takes long."""

import time
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("numba")
from treefold import aggregator
from treefold.operators.kernels import compiling


@pytest.fixture(autouse=True)
def _without_the_engine(monkeypatch):
    """The other loops are tested here: those that run where C++ cannot be compiled."""
    monkeypatch.setattr("treefold.operators.engine.folding.why_not", lambda: "a test says so")


@pytest.fixture
def silence(monkeypatch):
    """Nothing has been called yet, and the silence before a word is as long as one says."""
    monkeypatch.setattr(compiling, "_called", set())
    return lambda seconds: monkeypatch.setattr(compiling, "SECONDS_OF_SILENCE", seconds)


def test_a_first_call_that_takes_long_says_so_and_later_ones_do_not(caplog, silence):
    silence(0.01)
    for _ in range(2):
        with compiling.tells_if_slow("a call"):
            time.sleep(0.2)
    silence(100.0)
    with compiling.tells_if_slow("another"):
        pass
    assert [record.message for record in caplog.records] == [
        "treefold: compiling loops (a call): once per machine, up to a minute"
    ]


@pytest.mark.parametrize(
    ("name", "channels", "loops"),
    [
        ("binary-gru", 16, ["Binary-GRU, width 16", "Binary-GRU, width 16, gradients"]),
        (
            "binary-gru",
            7,
            ["Binary-GRU, any other width", "Binary-GRU, any other width, gradients"],
        ),
        ("gru", 16, ["GRU", "GRU, gradients"]),
    ],
)
def test_it_is_said_which_loops_are_compiled(name, channels, loops, caplog, monkeypatch, silence):
    class AtOnce:
        """A timer whose time is up at once."""

        def __init__(self, seconds, function, arguments):
            self.start = lambda: function(*arguments)

        def cancel(self):
            pass

    silence(0.0)
    monkeypatch.setattr(compiling, "threading", SimpleNamespace(Timer=AtOnce))
    for _ in range(2):
        aggregator(name, channels)(torch.randn(9, channels), torch.arange(9) % 2).sum().backward()
    assert [record.message for record in caplog.records] == [
        f"treefold: compiling loops ({what}): once per machine, up to a minute" for what in loops
    ]
