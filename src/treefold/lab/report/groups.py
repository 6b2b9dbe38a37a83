"""Runs that belong together: one recipe at one preset, with its seeds."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from treefold.lab.report.checks import BY_SIZE, SECONDS_BY_SIZE, is_finite
from treefold.lab.report.order import place_of
from treefold.lab.report.published import Published
from treefold.lab.report.runs import Run
from treefold.lab.report.seed_stats import Spread, fold

SWEEP = "-lambda"


@dataclass(frozen=True, eq=False)
class Group:
    """All runs of one recipe; numbers come from the finished ones alone.

    `variant` is the preset and whatever the command line changed in it, so that two groups with
    the same experiment and variant may be compared.
    """

    runs: tuple[Run, ...]
    variant: str
    number: int

    @property
    def experiment(self) -> str:
        """The experiment it is a row of."""
        return self.runs[0].experiment

    @property
    def row(self) -> str:
        """The row of the experiment's table."""
        return self.runs[0].row

    @property
    def anchor(self) -> str:
        """Where the page lists its records."""
        return f"records-{self.number}"

    @cached_property
    def finished(self) -> tuple[Run, ...]:
        """The runs whose numbers are results."""
        return tuple(run for run in self.runs if run.finished)

    @cached_property
    def unfinished(self) -> tuple[Run, ...]:
        """The runs that are still running, were stopped, or failed."""
        return tuple(run for run in self.runs if not run.finished)

    @property
    def is_sweep(self) -> bool:
        """Whether it is one point of a sweep over λ."""
        return self.experiment.endswith(SWEEP) and self.weight is not None

    @property
    def weight(self) -> float | None:
        """λ, the weight of the associativity loss."""
        options = self.runs[0].option("aggregator", "options")
        found: Any = options.get("associativity") if isinstance(options, dict) else None
        return float(found) if is_finite(found) and found >= 0 else None

    @property
    def departures(self) -> list[str]:
        """Where its runs leave the published recipe, each sentence once."""
        return list(dict.fromkeys(str(d) for run in self.finished for d in run.record.departures))

    def metric(self, name: str) -> Spread | None:
        """A metric over the seeds."""
        return fold(run.record.metrics.get(name) for run in self.finished)

    def accuracy_by_size(self, metric: str = BY_SIZE) -> dict[int, Spread]:
        """The accuracy over the seeds at each set size."""
        return _by_size(run.record.metrics.get(metric, {}) for run in self.finished)

    def seconds_by_size(self) -> dict[int, Spread]:
        """Seconds per epoch at each set size, over seeds and repetitions."""
        return _by_size(run.record.metrics.get(SECONDS_BY_SIZE, {}) for run in self.finished)

    def reported(self, name: str) -> Published | None:
        """The published value of a metric."""
        entries = (Published.read(run.record.reported.get(name)) for run in self.runs)
        return next(filter(None, entries), None)


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """The groups in reading order; two recipes are never one group, whatever they are called."""
    by_recipe: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in runs:
        by_recipe[run.record.name, _variant(run), _recipe(run)].append(run)
    named = Counter((name, variant) for name, variant, _ in by_recipe)
    groups = [
        Group(
            tuple(sorted(members, key=lambda run: (run.record.seed, run.place))),
            variant if named[name, variant] == 1 else f"{variant}, recipe {_digest(recipe)}",
            number=0,
        )
        for (name, variant, recipe), members in by_recipe.items()
    ]
    groups.sort(key=_reading_order)
    return [Group(group.runs, group.variant, place) for place, group in enumerate(groups, 1)]


def sections(groups: Sequence[Group]) -> dict[tuple[str, str], list[Group]]:
    """The groups that may be compared, by experiment and variant; those with results first."""
    found: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in groups:
        found[group.experiment, group.variant].append(group)
    return dict(sorted(found.items(), key=lambda item: not any(g.finished for g in item[1])))


def _variant(run: Run) -> str:
    changes = [f"{key}={value}" for key, value in sorted(run.record.overrides.items())]
    return ", ".join([run.record.preset, *changes])


def _recipe(run: Run) -> str:
    recipe = {key: value for key, value in run.record.recipe.items() if key != "seed"}
    return json.dumps(recipe, sort_keys=True, ensure_ascii=False)


def _digest(recipe: str) -> str:
    return hashlib.sha256(recipe.encode()).hexdigest()[:6]


def _by_size(found: Iterable[dict[str, Any]]) -> dict[int, Spread]:
    values: dict[int, list[float]] = defaultdict(list)
    for by_size in found:
        for size, value in by_size.items():
            values[int(size)] += value if isinstance(value, list) else [value]
    folded = {size: fold(values[size]) for size in sorted(values)}
    return {size: spread for size, spread in folded.items() if spread is not None}


def _reading_order(group: Group) -> tuple[Any, ...]:
    weight = -(group.weight or 0.0) if group.is_sweep else 0.0
    record = group.runs[0].record
    place = place_of(
        group.experiment, bool(record.overrides), record.preset, group.row, group.variant, weight
    )
    return (*place, group.row)
