"""One number from several seeds: the mean, the range, and the standard deviation."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from treefold.lab.report.checks import is_finite


@dataclass(frozen=True)
class Spread:
    """What several runs say about one quantity; `deviation` needs two."""

    mean: float
    low: float
    high: float
    deviation: float | None
    count: int

    def overlaps(self, other: "Spread") -> bool:
        """Whether the two ranges share a value."""
        return self.low <= other.high and other.low <= self.high


def fold(values: Iterable[float | int | None]) -> Spread | None:
    """The spread of the values that are there and finite; None if there are none."""
    found = [float(value) for value in values if value is not None and is_finite(value)]
    if not found:
        return None
    deviation = statistics.stdev(found) if len(found) > 1 else None
    return Spread(statistics.fmean(found), min(found), max(found), deviation, len(found))
