"""The set experiments: every row of the paper's 2nd-minimum table, the λ sweep, other tasks."""

from collections.abc import Callable
from typing import Any

from treefold.aggr import AGGREGATORS
from treefold.lab.experiments.presets import PRESETS, Preset
from treefold.lab.experiments.published import compared
from treefold.lab.experiments.recipe import AggregatorChoice, Experiment, Reported
from treefold.lab.tasks import SET_TASKS
from treefold.names import by_name, require_one_of

TABLE = "tab:2min_1k_baselines"
REPORTED: dict[str, dict[str, Reported]] = {
    name: {
        metric: Reported(value, spread, TABLE)
        for metric, (value, spread) in zip(
            ("accuracy@1-16", "accuracy@32", "accuracy@200"), numbers, strict=True
        )
    }
    for name, numbers in {
        "gru": ((0.996, 0.001), (0.998, 0.001), (0.912, 0.017)),
        "binary-gru-assoc": ((0.997, 0.002), (0.997, 0.002), (0.822, 0.064)),
        "binary-gru": ((0.997, 0.001), (0.992, 0.005), (0.443, 0.122)),
        "pna": ((0.961, 0.003), (0.794, 0.012), (0.110, 0.027)),
        "max": ((0.901, 0.007), (0.723, 0.025), (0.069, 0.039)),
        "sum": ((0.845, 0.010), (0.261, 0.020), (0.045, 0.011)),
    }.items()
}
"""The paper's 2nd-minimum table: mean and spread over three runs."""

REPORTED_IN_TEXT = {
    "binary-gru": {
        "accuracy@200": Reported(0.287, 0.068, "subsec:2min, Out-of-distribution performance")
    }
}
"""Where the paper's text has another number than its table."""

_EFFICIENCY = "subsec:2min, Efficiency; fig:2min_speedtest"
REPORTED_SECONDS: dict[str, dict[str, Reported]] = {
    name: {
        f"seconds_per_epoch@{size}": Reported(value, spread, _EFFICIENCY)
        for size, (value, spread) in by_size.items()
    }
    for name, by_size in {
        "gru": {20: (46.6, 0.5), 200: (397.2, 1.3)},
        "binary-gru-assoc": {20: (48.2, 0.4), 200: (79.4, 0.5)},
    }.items()
}
"""The paper's seconds per epoch of 2nd-minimum training, on a GPU, by the size of sets."""

ROWS = tuple(REPORTED)
EXTRA_ROWS = ("gated-selection-general", "gated-selection", "oracle")
"""Rows beyond the paper's table, which are run if they are named."""
SWEEP = "second-minimum-lambda"
LAMBDAS = tuple(10.0**-power for power in range(8))


def table_of(task: str, preset: str) -> list[Experiment]:
    """Every aggregator of the paper's table on one task."""
    return [_experiment(f"{task}/{row}", task, row, preset) for row in ROWS]


def lambda_sweep(preset: str) -> list[Experiment]:
    """Binary-GRU-Assoc on 2nd-minimum with λ from 10^0 to 10^-7 (fig:2min_regularisation).

    The figure has no numbers to compare with, but a recipe to depart from.
    """
    row = "binary-gru-assoc"
    return [
        _experiment(
            f"{SWEEP}/{row}-{weight:.0e}",
            "second-minimum",
            row,
            preset,
            options={"associativity": weight},
        )
        for weight in LAMBDAS
    ]


_ONLY_COPIES = {"operator_options": {"writes": False}}
_ONLY_MEANS = {"operator_options": {"selects": False}}
_STRETCHED = {"operator_options": {"stretch": 0.1}}
_LAWS = {"associativity": 1.0, "law_nodes": 64, "law_reduction": "mean"}
_CONSISTENT = {"consistency": 0.5, "law_reduction": "mean"}
ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "binary-gru-balanced": ("binary-gru", {"bracketing": "balanced"}),
    "binary-gru-consistent": ("binary-gru", _CONSISTENT),
    "binary-mlp": ("binary-mlp", {}),
    "gated-selection-balanced": ("gated-selection", {"bracketing": "balanced"}),
    "gated-selection-assoc": ("gated-selection", _LAWS),
    "gated-selection-consistent": ("gated-selection", _CONSISTENT),
    "gated-selection-copies": ("gated-selection", _ONLY_COPIES),
    "gated-selection-means": ("gated-selection", _ONLY_MEANS),
    "gated-selection-stretched": ("gated-selection", _STRETCHED),
}
"""What makes a monoid hold on large sets? An aggregator and its options, by the name of the row."""


def ablations(preset: str) -> list[Experiment]:
    """Gated selection on 2nd-minimum with parts left out or added, at the same budget."""
    return [
        _experiment(f"generalisation/{name}", "second-minimum", row, preset, options)
        for name, (row, options) in ABLATIONS.items()
    ]


def _experiment(
    name: str, task: str, row: str, preset_name: str, options: dict[str, Any] | None = None
) -> Experiment:
    preset = by_name(PRESETS, preset_name, "preset")
    made = _at(preset, name, task, row, options or {})
    paper = _at(PRESETS["paper"], name, task, row, options or {})
    reported = REPORTED.get(row, {}) if name == f"second-minimum/{row}" else {}
    in_paper = reported or name.startswith(f"{SWEEP}/")
    return compared(made, paper, reported, (_weight,)) if in_paper else made


def _weight(made: Experiment) -> str:
    """What λ is here, if it is not the paper's."""
    options, channels = made.aggregator.options, made.model.channels
    if options.get("law_reduction") != "mean":
        return ""
    return (
        f"the law loss is a mean over {channels} channels; the paper has their sum, so that a "
        f"weight here is 1/{channels} of that weight there"
    )


def _at(preset: Preset, name: str, task: str, row: str, options: dict[str, Any]) -> Experiment:
    return Experiment(
        name=name,
        task=SET_TASKS[task](**preset.task),
        aggregator=AggregatorChoice(row, {**preset.options.get(row, {}), **options}),
        model=preset.model,
        training=preset.training,
        evaluation=preset.evaluation,
    )


EXPERIMENTS: dict[str, Callable[[str], list[Experiment]]] = {
    **{task: lambda preset, task=task: table_of(task, preset) for task in SET_TASKS},  # type: ignore[misc]
    SWEEP: lambda_sweep,
    "generalisation": ablations,
}
"""By name: `EXPERIMENTS[name](preset)` gives the rows of a table."""


def find_experiment(name: str, preset: str) -> list[Experiment]:
    """The experiments that `second-minimum`, or one row such as `second-minimum/gru`, names."""
    family, _, row = name.partition("/")
    if family in SET_TASKS and (row in EXTRA_ROWS or row in AGGREGATORS):
        return [_experiment(name, family, row, preset)]
    rows = by_name(EXPERIMENTS, family, "experiment")(preset)
    if not row:
        return rows
    known = {experiment.name.partition("/")[2]: experiment for experiment in rows}
    others = (*EXTRA_ROWS, *AGGREGATORS) if family in SET_TASKS else ()
    require_one_of((*known, *others), row, f"row of {family}")
    return [known[row]]
