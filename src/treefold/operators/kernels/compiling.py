"""How loops are compiled here: at their first use, for the types they meet, and kept on disk."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numba import njit

# Fused multiply-adds are welcome; nothing else about floats is loosened.
_OPTIONS = {"error_model": "numpy", "fastmath": {"contract"}, "cache": True, "nogil": True}

compiled = njit(**_OPTIONS)
on_threads = njit(parallel=True, **_OPTIONS)
in_place = njit(inline="always", **_OPTIONS)
"""Compiled anew wherever it is called, with what is known there."""


SECONDS_OF_SILENCE = 2.0
_log = logging.getLogger("treefold")
_called: set[str] = set()


@contextmanager
def tells_if_slow(what: str) -> Iterator[None]:
    """Inside, loops for `what` may be compiled, the first time; if that takes long, say so."""
    if what in _called:
        yield
        return
    words = f"treefold: compiling loops ({what}): once per machine, up to a minute"
    timer = threading.Timer(SECONDS_OF_SILENCE, _log.warning, [words])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    _called.add(what)


@compiled
def share(part, num_parts, count):
    """From where to where one of several parts goes, of `count` things."""
    return part * count // num_parts, (part + 1) * count // num_parts


_ANY = 5
_WIDTHS = {channels: np.empty((1,) * axes) for axes, channels in enumerate((16, 32, 64, 128), 1)}
_ANY_WIDTH = np.empty((1,) * _ANY)


def width_of(channels: int) -> np.ndarray:
    """An array whose type tells loops for how many channels they are to be compiled.

    Each of 16, 32, 64 and 128 has loops of its own, from its first use on; all others share some.
    """
    return _WIDTHS.get(channels, _ANY_WIDTH)


def name_of_width(channels: int) -> str:
    """Which loops these are, for a reader."""
    return f"width {channels}" if channels in _WIDTHS else "any other width"


SINGLE, HALF = np.empty(1), np.empty((1, 1))
"""In which precision loops are to multiply, float32 or bfloat16: a type again, not a value."""
HALF_AXES = HALF.ndim


@in_place
def num_channels(width, rows):
    """How many channels `width` tells of, or else the length of the last of three axes."""
    return 8 << width.ndim if width.ndim < _ANY else rows.shape[2]
