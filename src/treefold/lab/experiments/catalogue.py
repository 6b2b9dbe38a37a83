"""Every experiment there is, whatever its kind of task, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from treefold.lab.experiments import realworld_experiments, set_experiments
from treefold.lab.experiments.multitask_experiments import (
    EXTRA_ROWS,
    MULTITASK_EXPERIMENTS,
    find_multitask_experiment,
)
from treefold.lab.experiments.multitask_presets import MULTITASK_PRESETS, MultiTaskPreset
from treefold.lab.experiments.presets import PRESETS, Preset
from treefold.lab.experiments.realworld_experiments import (
    REALWORLD_EXPERIMENTS,
    find_realworld_experiment,
)
from treefold.lab.experiments.realworld_presets import REALWORLD_PRESETS, RealWorldPreset
from treefold.lab.experiments.recipe import Experiment
from treefold.lab.tasks import SET_TASKS
from treefold.names import by_name

AnyPreset = Preset | MultiTaskPreset | RealWorldPreset


@dataclass(frozen=True)
class Family:
    """Experiments on tasks of one kind, and what their presets stand for."""

    experiments: Mapping[str, Callable[[str], list[Experiment]]]
    presets: Mapping[str, AnyPreset]
    find: Callable[[str, str], list[Experiment]]
    """The rows of an experiment, or one of them, at a preset."""
    extra_rows: Mapping[str, tuple[str, ...]]
    """Rows of an experiment that are run only if they are named."""


FAMILIES = {
    "sets": Family(
        set_experiments.EXPERIMENTS,
        PRESETS,
        set_experiments.find_experiment,
        dict.fromkeys(SET_TASKS, set_experiments.EXTRA_ROWS),
    ),
    "graphs": Family(
        MULTITASK_EXPERIMENTS,
        MULTITASK_PRESETS,
        find_multitask_experiment,
        dict.fromkeys(MULTITASK_EXPERIMENTS, tuple(EXTRA_ROWS)),
    ),
    "real graphs": Family(
        REALWORLD_EXPERIMENTS,
        REALWORLD_PRESETS,
        find_realworld_experiment,
        dict.fromkeys(REALWORLD_EXPERIMENTS, tuple(realworld_experiments.EXTRA_ROWS)),
    ),
}


def family_of(name: str) -> Family:
    """The family of an experiment, or of a row such as `second-minimum/gru`."""
    families = {
        experiment: family for family in FAMILIES.values() for experiment in family.experiments
    }
    return by_name(families, name.partition("/")[0], "experiment")


def find_experiment(name: str, preset: str) -> list[Experiment]:
    """The experiments that `second-minimum`, or one row such as `second-minimum/gru`, names."""
    return family_of(name).find(name, preset)


def find_preset(name: str, preset: str) -> AnyPreset:
    """What a preset stands for in an experiment."""
    return by_name(family_of(name).presets, preset, "preset")
