"""The results of the finished runs of a comparison, aggregator by aggregator."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from treefold.lab.report import Group, Spread, Style
from treefold.lab.tasks import SPLITS

LAW = "law:"
STUDENT = {2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23}
"""Standard errors that two means must be apart for their difference to count, by the number of runs
beyond two: Student's t at 95 %. For more runs, the last."""


@dataclass(frozen=True, eq=False)
class Result:
    """One aggregator: everything that was measured, over its seeds."""

    group: Group
    style: Style
    train: Spread
    val: Spread
    test: Spread
    epoch_seconds: Spread
    memory: Spread
    laws: dict[str, Spread]

    @property
    def label(self) -> str:
        """Its name on the page."""
        return self.style.label

    @property
    def fixed(self) -> bool:
        """True if nothing of it is learned."""
        return self.style.kind == "fixed"


@dataclass(frozen=True, eq=False)
class Results:
    """All aggregators with results, and how their scores compare."""

    rows: tuple[Result, ...]
    facts: dict[str, Any]
    """About the data set."""
    constant: Spread | None
    """The score of a constant answer on the test."""

    @property
    def metric(self) -> str:
        """The score: accuracy, roc-auc or mae."""
        return str(self.facts["metric"])

    @property
    def highest(self) -> bool:
        """True if a higher score is the better one."""
        return self.metric != "mae"

    @cached_property
    def ranked(self) -> list[Result]:
        """Best validation first: the test must not choose."""
        return sorted(self.rows, key=lambda row: -self.gain(row.val.mean))

    def gain(self, score: float) -> float:
        """The score, turned such that more is better."""
        return score if self.highest else -score

    def clearly_better(self, one: Spread, other: Spread) -> bool:
        """True if the difference is more than chance between seeds, or two answers, would make."""
        difference = self.gain(one.mean) - self.gain(other.mean)
        error = standard_error(one, other)
        if error is None:
            return False
        sure = STUDENT[min(one.count + other.count - 2, max(STUDENT))]
        return difference > max(sure * error, self._answers(2))

    def rivals(self, best: Result) -> list[Result]:
        """Those that are not clearly worse than the best on validation, the best among them.

        Without a second seed nothing is known of chance: then only those that are just as good.
        """
        return [
            row
            for row in self.rows
            if row.val.mean == best.val.mean
            or (_several(row, best) and not self.clearly_better(best.val, row.val))
        ]

    def _answers(self, count: int) -> float:
        """The accuracy that so many answers of the smaller of val and test make."""
        if self.metric != "accuracy":
            return 0.0
        return count / min(int(self.facts["answers"][name]) for name in ("val", "test"))


def standard_error(one: Spread, other: Spread) -> float | None:
    """The standard error of a difference of two means; None where one of them is a single run."""
    if one.deviation is None or other.deviation is None:
        return None
    return math.hypot(one.deviation / one.count**0.5, other.deviation / other.count**0.5)


def facts_of(recipe: dict[str, Any]) -> dict[str, Any]:
    """The facts about the data set, from a recipe of today or of an earlier treefold."""
    facts: dict[str, Any] | None = recipe.get("dataset") or recipe.get("task", {}).get("facts")
    if facts is None:
        raise ValueError("a run in this folder is not of a comparison; give another folder")
    return facts


def read_results(groups: Sequence[Group], styles: dict[str, Style]) -> Results | None:
    """The results of the groups that have any; None if none has."""
    finished = [group for group in groups if group.finished]
    rows = tuple(filter(None, (_result(group, styles[group.row]) for group in finished)))
    if not rows:
        return None
    facts = facts_of(rows[0].group.runs[0].record.recipe)
    return Results(rows, facts, rows[0].group.metric(f"constant_{facts['metric']}"))


def _result(group: Group, style: Style) -> Result | None:
    metric = facts_of(group.runs[0].record.recipe)["metric"]
    spreads = [group.metric(f"{metric}@{split}") for split in SPLITS]
    seconds, memory = group.metric("seconds_per_epoch"), group.metric("step_memory")
    if None in spreads or seconds is None or memory is None:
        return None
    train, val, test = (spread for spread in spreads if spread is not None)
    names = sorted({m for run in group.finished for m in run.record.metrics if m.startswith(LAW)})
    laws = {name.removeprefix(LAW): group.metric(name) for name in names}
    found = {law: spread for law, spread in laws.items() if spread is not None}
    return Result(group, style, train, val, test, seconds, memory, found)


def _several(*rows: Result) -> bool:
    return all(row.val.count > 1 for row in rows)
