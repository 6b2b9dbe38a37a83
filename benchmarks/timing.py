"""Ratios of times, measured so that a noisy machine cannot favour one side."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Action = Callable[[], object]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Ratio:
    """The quotient of two times: its median over rounds, and the quartiles."""

    median: float
    low: float
    high: float
    seconds: tuple[float, float]
    """The median time of either side."""

    @classmethod
    def of(cls, rounds: Sequence[tuple[float, float]]) -> "Ratio":
        """From the times of both sides in each round."""
        quotients = [above / below for above, below in rounds]
        low, median, high = statistics.quantiles(quotients * (1 + (len(rounds) == 1)), n=4)
        above, below = (statistics.median(side) for side in zip(*rounds, strict=True))
        return cls(median, low, high, (above, below))

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
    return Ratio.of(rounds)


def ratio_over(
    items: Sequence[Item],
    numerator: Callable[[Item], object],
    denominator: Callable[[Item], object],
    rounds: int,
) -> Ratio:
    """The ratio of processor times for all items together, each item timed for both in turn.

    What takes minutes meets other work on any machine; the processor's time changes little by it,
    and is the clock's where one thread works alone.
    """
    totals = []
    for _ in range(rounds):
        pairs = [
            tuple(
                timed(lambda side=side, item=item: side(item), time.process_time)
                for side in (numerator, denominator)
            )
            for item in items
        ]
        above, below = (sum(side) for side in zip(*pairs, strict=True))
        totals.append((above, below))
    return Ratio.of(totals)


def timed(action: Action, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds for one call."""
    begin = clock()
    action()
    return clock() - begin


def _short(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:,.0f}"
