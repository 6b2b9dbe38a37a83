"""Every experiment by name, and the module that has the rest of it. Names alone need no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from treefold.names import by_name

if TYPE_CHECKING:
    from treefold.lab.experiments.recipe import Experiment
    from treefold.lab.experiments.task_runner import TaskRunner

AGGREGATOR_NAMES = (
    *("sum", "mean", "max", "min", "std", "pna", "ssma", "gru", "lstm"),
    *("binary-gru", "binary-gru-assoc", "binary-mlp"),
    *("gated-selection", "gated-selection-general", "pna-selection"),
    *("finite-selection", "finite-counters"),
    *("conjugated-sum", "conjugated-max"),
)
"""The names of the registry, which itself needs torch."""


@dataclass(frozen=True)
class Family:
    """Experiments on tasks of one kind: their names, and those of their rows and presets."""

    module: str
    tasks: tuple[str, ...]
    """As in recipes."""
    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By experiment."""
    extra_rows: tuple[str, ...] = ()
    """Rows of the experiments `with_extra`, which are run only if they are named."""
    with_extra: tuple[str, ...] = ()
    presets: Mapping[str, str] = field(default_factory=dict)
    """Their costs, in words."""

    def load(self) -> ModuleType:
        """The module: it has KINDS, RUNNER, PRESETS and `find`."""
        return import_module(f"treefold.lab.experiments.{self.module}")


TITLES = {
    "second-minimum": ("Second minimum", "The second smallest of a set of 8-bit integers."),
    "second-minimum-lambda": (
        "Weight of the associativity loss",
        "The second smallest of a set, by Binary-GRU-Assoc with λ from 1 down to 10⁻⁷.",
    ),
    "second-minimum-associativity": (
        "The associativity loss as published",
        "The second smallest of a set; the loss is summed over channels and nodes.",
    ),
    "generalisation": (
        "Parts of gated selection",
        "The second smallest of a set, with parts of the operator left out or changed.",
    ),
    "multi-task": (
        "Six properties of random graphs",
        "PNA's multi-task benchmark: log₁₀ of the mean squared error on its test graphs.",
    ),
    "parity": ("Parity", "Is the sum of a set of integers odd?"),
    "count-modulo": ("Count modulo 5", "The number of odd integers of a set, modulo 5."),
    "mode": ("Mode", "The most frequent of a multiset of 4-bit integers."),
    "xor": ("Exclusive or", "The bitwise exclusive or of a set of 8-bit integers."),
    "bitwise-or": ("Bitwise or", "The bitwise or of a set of 8-bit integers."),
    "finite": ("Learned monoids with a proof", "Tasks on sets, by operators with finite states."),
    "finite-ideas": ("What each idea gives", "Finite states, with one idea left out or changed."),
    "set-speed": ("Seconds per epoch", "Training on the second minimum, by the size of the sets."),
    "zinc": ("ZINC", "Molecules: constrained solubility."),
    "zinc-edges": ("ZINC with edges", "Molecules and their bonds: constrained solubility."),
    "cifar10": ("CIFAR10", "Superpixels of small images."),
    "cifar10-edges": ("CIFAR10 with edges", "Superpixels of small images, with edge features."),
    "mnist": ("MNIST", "Superpixels of handwritten digits."),
    "mnist-edges": ("MNIST with edges", "Superpixels of handwritten digits, with edge features."),
    "molhiv": ("MolHIV", "Molecules: which of them stop HIV from multiplying."),
}
"""The name of every experiment for a reader, and its question; in the order of a report."""

_SET_TASKS = ("second-minimum", "parity", "count-modulo", "mode", "xor", "bitwise-or")
_SET_ROWS = ("gru", "binary-gru-assoc", "binary-gru", "pna", "max", "sum")
FINITE_ROWS = (
    *("parity", "xor", "count-modulo", "bitwise-or", "second-minimum", "second-minimum-5"),
    "third-minimum-5",
)
FINITE_IDEAS = (
    *("counters-of-every-kind", "counters-hard-at-once", "counters-without-questions"),
    *("selection", "selection-taught", "selection-hard-at-once", "selection-never-hard"),
)
_REAL_ROWS = ("mpnn-sum", "mpnn-max", "pna", "gru", "binary-gru", "binary-gru-assoc")
_REAL = ("zinc", "zinc-edges", "molhiv", "cifar10", "cifar10-edges", "mnist", "mnist-edges")
_SMOKE = "seconds: does it run?"

FAMILIES = {
    "sets": Family(
        "sets",
        tasks=_SET_TASKS,
        rows={
            **dict.fromkeys(_SET_TASKS, _SET_ROWS),
            "second-minimum-lambda": tuple(f"binary-gru-assoc-{10.0**-n:.0e}" for n in range(8)),
            "second-minimum-associativity": (
                "binary-gru",
                *(f"binary-gru-assoc-{10.0**-n:.0e}" for n in (0, 2, 4)),
            ),
            "generalisation": (
                *("binary-gru-balanced", "binary-gru-consistent", "binary-mlp"),
                *("gated-selection-balanced", "gated-selection-assoc"),
                *("gated-selection-consistent", "gated-selection-copies"),
                *("gated-selection-means", "gated-selection-stretched"),
            ),
        },
        extra_rows=("gated-selection-general", "gated-selection", "oracle"),
        with_extra=_SET_TASKS,
        presets={
            "smoke": _SMOKE,
            "quick": "the whole comparison in three minutes on two cores",
            "standard": "what we publish: about ten minutes of one core a run, three seeds",
            "paper": "as in the paper: 1,000 epochs, hours to days",
        },
    ),
    "finite states": Family(
        "finite_sets",
        tasks=(),
        rows={"finite": FINITE_ROWS, "finite-ideas": FINITE_IDEAS},
        presets={"smoke": _SMOKE, "standard": "what we publish: some minutes of one core a run"},
    ),
    "graphs": Family(
        "multitask",
        tasks=("multi-task",),
        rows={
            "multi-task": (
                *("gcn", "gat", "gin", "mpnn-sum", "mpnn-max", "pna-16", "pna-one-tower"),
                *("gru", "binary-gru", "binary-gru-assoc"),
            )
        },
        extra_rows=(
            *("gru-16", "binary-gru-16", "binary-gru-assoc-16"),
            *("gated-selection", "binary-gru-readout", "pna-selection", "ssma"),
        ),
        with_extra=("multi-task",),
        presets={
            "smoke": _SMOKE,
            "quick": "the whole table in an hour on two cores, 32 channels instead of 128",
            "standard": "200 epochs with small batches, 64 channels instead of 128, three seeds",
            "paper": "as in the paper: 1,000 to 10,000 epochs, days; wants a GPU",
        },
    ),
    "real graphs": Family(
        "realworld",
        tasks=("zinc", "mnist", "cifar10", "molhiv"),
        rows=dict.fromkeys(_REAL, _REAL_ROWS),
        extra_rows=("pna-ns", "gated-selection", "pna-selection", "ssma"),
        with_extra=_REAL,
        presets={
            "smoke": _SMOKE,
            "quick": "5 to 40 minutes a row on one core; learned rows have one tower of 64 or 32 "
            "channels",
            "standard": "hours a row on one core; learned rows have one tower of 64 channels, "
            "three seeds",
            "paper": "as in the paper: until the learning rate is below 1e-5, days; wants a GPU",
        },
    ),
    "your graphs": Family("your_graphs", tasks=("your-graphs",)),
}
"""The last one has no experiments of its own: `treefold compare` makes them."""


def family_of(name: str) -> Family:
    """The family of an experiment, or of a row such as `second-minimum/gru`."""
    families = {experiment: family for family in FAMILIES.values() for experiment in family.rows}
    return by_name(families, name.partition("/")[0], "experiment")


def find_experiment(name: str, preset: str) -> list[Experiment]:
    """The experiments that `second-minimum`, or one row such as `second-minimum/gru`, names."""
    found: list[Experiment] = family_of(name).load().find(name, preset)
    return found


def find_preset(name: str, preset: str) -> Any:
    """A preset of an experiment."""
    return by_name(family_of(name).load().PRESETS, preset, "preset")


def experiment_from_recipe(name: str, recipe: dict[str, Any]) -> Experiment:
    """The experiment that a record's recipe describes."""
    task = recipe["task"]["name"]
    experiment: Experiment = _family_of_task(task).load().KINDS[task].experiment(name, recipe)
    return experiment


def runner_of(experiment: Experiment, seed: int) -> TaskRunner:
    """The part of the engine that knows the experiment's kind of task."""
    runner: TaskRunner = _family_of_task(experiment.task.name).load().RUNNER(experiment, seed)
    return runner


def _family_of_task(task: str) -> Family:
    return by_name({each: f for f in FAMILIES.values() for each in f.tasks}, task, "task")
