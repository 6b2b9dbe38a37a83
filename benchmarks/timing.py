"""Ratios of times, measured so that a noisy machine cannot favour one side."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Action = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """The quotient of two times: its median over rounds, and the quartiles."""

    median: float
    low: float
    high: float
    seconds: tuple[float, float]
    """The median time of either side."""

    def __str__(self) -> str:
        return f"{_short(self.median)} ({_short(self.low)} to {_short(self.high)})"


def ratio(numerator: Action, denominator: Action, seconds: float = 4.0, warm_up: int = 2) -> Ratio:
    """Time both in turn, round by round, for about `seconds`; compare within each round."""
    for _ in range(warm_up):
        numerator(), denominator()
    rounds: list[tuple[float, float]] = []
    begin = time.perf_counter()
    while len(rounds) < 7 or (time.perf_counter() - begin < seconds and len(rounds) < 200):
        rounds.append((timed(numerator), timed(denominator)))
    quotients = [above / below for above, below in rounds]
    low, median, high = statistics.quantiles(quotients, n=4)
    above, below = zip(*rounds, strict=True)
    return Ratio(median, low, high, (statistics.median(above), statistics.median(below)))


def timed(action: Action) -> float:
    """Seconds for one call."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def _short(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:,.0f}"
