"""A verdict on the runs of a comparison: the best aggregators, and how sure that is. No torch."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from treefold.lab.experiments.scores import measure_of
from treefold.lab.runs import Group, Stat

STUDENT = (12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t at 95 %, by the number of pairs beyond two; for more pairs, the last."""


def facts_of(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The facts about the graphs, from a recipe of today or of an earlier treefold."""
    found = recipe.get("dataset") or recipe.get("task", {}).get("facts")
    if not isinstance(found, dict):
        raise ValueError("the folder holds runs that are no comparison; use `treefold report`")
    return found


class Judgement:
    """The groups of one comparison that have results, best validation first.

    Validation chooses, the test only judges. `rivals` are those that are not clearly worse than the
    best.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        recipes = [group.runs[0].record.recipe for group in groups]
        self.facts = facts_of(recipes[0])
        alike = {json.dumps([facts_of(r), r.get("model"), r.get("training")]) for r in recipes}
        if len(alike) != 1:
            raise ValueError(
                f"the folder holds runs of {len(alike)} comparisons; expected one: give another "
                "--out, or remove what does not belong"
            )
        self.metric = str(self.facts["metric"])
        self.sign = 1 if measure_of(self.metric).highest else -1
        rows = [group for group in groups if group.metric(f"{self.metric}@val")]
        self.rows = sorted(rows, key=lambda group: -self.sign * self.score(group).mean)
        self.rivals = [group for group in self.rows if not self.sure(self.rows[0], group)]

    def score(self, group: Group, split: str = "val") -> Stat:
        """Its score on a split."""
        return group.metric(f"{self.metric}@{split}") or Stat(math.nan, math.nan, math.nan)

    def seconds(self, group: Group) -> float:
        """Its seconds per epoch."""
        return (group.metric("seconds_per_epoch") or Stat(math.inf, 0, 0)).mean

    def sure(self, one: Group, other: Group) -> bool:
        """Return if one is better by more than chance between seeds, or an answer or two, makes.

        It is a t-test over pairs with the same seed, at 95 %. One seed knows nothing of chance:
        then any difference counts.
        """
        name = f"{self.metric}@val"
        a, b = ({r.record.seed: r.record.metrics[name] for r in g.finished} for g in (one, other))
        pairs = [self.sign * (a[seed] - b[seed]) for seed in a if seed in b]
        if len(pairs) < 2:
            return bool(self.sign * (self.score(one).mean - self.score(other).mean) > 0)
        error = statistics.stdev(pairs) / math.sqrt(len(pairs))
        two = 2 / min(self.facts["answers"].values()) if self.metric == "accuracy" else 0.0
        return bool(statistics.fmean(pairs) > max(STUDENT[min(len(pairs), 10) - 2] * error, two))

    def pick(self) -> Group:
        """The fastest of the rivals."""
        return min(self.rivals, key=self.seconds)

    def rising(self, group: Group) -> bool:
        """Return if most of its runs had their best epoch in the last tenth."""
        ends = [(r.record.metrics.get("best_epoch", 0), r.record.epochs) for r in group.finished]
        return bool(2 * sum(best > 0.9 * last for best, last in ends) > len(ends))
