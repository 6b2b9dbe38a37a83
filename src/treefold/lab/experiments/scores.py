"""Scores in words: what a metric of a record measures, and on what. Needs no torch."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from treefold.lab.runs import Group, Stat


class Measure(NamedTuple):
    """A kind of score: its words and digits, and which one is better."""

    title: str
    digits: int = 3
    highest: bool = True

    @property
    def arrow(self) -> str:
        """Up if a higher one is better."""
        return "↑" if self.highest else "↓"

    def key(self, found: Stat | None) -> float:
        """Higher for the better one, alike for what is written alike."""
        mean = found.mean if found else math.nan
        return round(mean if self.highest else -mean, self.digits)


_MEASURES = {
    "roc-auc": Measure("ROC-AUC"),
    "mae": Measure("mean absolute error", 3, False),
    "log10_mse": Measure("log₁₀ error", 2, False),
    "seconds_per_epoch": Measure("seconds per epoch", 1, False),
}
_SCORES = {"sssp": "shortest paths", "laplacian": "Laplacian", "test-last": "test, last epoch"}


def measure_of(metric: str) -> Measure:
    """The measure of a score such as `accuracy@200`."""
    name = metric.partition("@")[0]
    return _MEASURES.get(name, Measure(name))


def where(metric: str) -> str:
    """`sizes 1–16` for accuracy@1-16, `balanced, size 32` for accuracy@balanced-32."""
    name = metric.partition("@")[2]
    balanced, size = "balanced, " * name.startswith("balanced-"), name.removeprefix("balanced-")
    if size.isdecimal():
        return f"{balanced}size {int(size):,}"
    if size.replace("-", "").isdecimal():
        return f"{balanced}sizes {size.replace('-', '–')}"
    return _SCORES.get(name, name.replace("-", " "))


def scores_of(groups: Iterable[Group]) -> list[str]:
    """The names of all scores, in the order of their records."""
    return list(dict.fromkeys(name for group in groups for name in group.scores))


def headline_score(groups: Iterable[Group]) -> str:
    """The score that an overview shows: the average, the test, or the largest sets."""
    found = scores_of(groups)
    uniform = [name for name in found if "balanced" not in name] or found
    first = [name for name in found if name.endswith(("@average", "@test"))]
    return (first or uniform or [""])[-1]
