"""Ctrl-C and SIGTERM as a question that a loop can ask: is it time to stop?"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(Exception):
    """A run was asked to stop; what can be saved of it is saved."""


class StopRequest:
    """True from the first signal on."""

    def __init__(self) -> None:
        self.signal: str | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Inside, the first Ctrl-C or SIGTERM only sets the request; a second one acts as usual."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread can hear signals
        return
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: FrameType | None) -> None:
        request.signal = signal.Signals(number).name
        signal.signal(number, usual[signal.Signals(number)])

    for number in usual:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
