"""From a recipe to what runs: routines, networks, optimisers, schedules."""

from collections.abc import Callable

import torch
from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
)

from treefold.aggr import AGGREGATORS, aggregator
from treefold.lab.experiments.multitask_runner import MultiTaskRoutine
from treefold.lab.experiments.realworld_runner import RealWorldRoutine
from treefold.lab.experiments.recipe import Experiment, Training
from treefold.lab.experiments.set_runner import SetRoutine
from treefold.lab.experiments.task_runner import Routine
from treefold.lab.tasks import GraphTask, MultiTask, SetTask
from treefold.names import require_one_of

ROUTINES: dict[type, type[Routine]] = {
    SetTask: SetRoutine,
    MultiTask: MultiTaskRoutine,
    GraphTask: RealWorldRoutine,
}
"""By the kind of task they are for."""


def routine_of(experiment: Experiment, seed: int) -> Routine:
    """How an experiment is run with a seed."""
    kinds = (kind for task, kind in ROUTINES.items() if isinstance(experiment.task, task))
    return next(kinds)(experiment, seed)


def require_aggregator(experiment: Experiment) -> None:
    """Refuse an aggregator that is unknown, or does not take its options, before work begins."""
    choice = experiment.aggregator
    others = routine_of(experiment, seed=0).other_aggregators
    require_one_of([*AGGREGATORS, *others], choice.name, "aggregator")
    if choice.name not in others:
        with torch.random.fork_rng(devices=[]):
            _as_value_error(experiment, lambda: aggregator(choice.name, 8, **choice.options))


def build_model(experiment: Experiment) -> nn.Module:
    """The network of a recipe."""
    return _as_value_error(experiment, lambda: routine_of(experiment, seed=0).model())


def _as_value_error(experiment: Experiment, make: Callable[[], nn.Module]) -> nn.Module:
    """What `make` makes; options of a wrong type are the recipe's mistake."""
    choice = experiment.aggregator
    try:
        return make()
    except TypeError as error:
        raise ValueError(f"aggregator {choice.name} with {choice.options}: {error}") from None


def build_optimizer(model: nn.Module, training: Training, device: torch.device) -> Optimizer:
    """The optimiser of a recipe; in one call on CPUs, where that takes a fifth of the time."""
    kinds: dict[str, type[Adam]] = {"adam": Adam, "adamw": AdamW}
    return kinds[training.optimizer](
        model.parameters(),
        lr=training.learning_rate,
        weight_decay=training.weight_decay,
        fused=device.type == "cpu",
    )


def build_schedule(
    optimizer: Optimizer, training: Training, steps: int, highest: bool = False
) -> LRScheduler | ReduceLROnPlateau:
    """The learning-rate schedule of a recipe, over `steps` steps in all.

    `highest` tells a plateau whether what it is given should rise, or else fall.
    """
    if training.schedule == "plateau":
        return ReduceLROnPlateau(
            optimizer,
            mode="max" if highest else "min",
            factor=training.plateau_factor,
            patience=training.plateau_patience,
        )
    if training.schedule == "one-cycle":
        return OneCycleLR(optimizer, training.learning_rate, total_steps=steps + 1)
    if training.schedule == "cosine":
        return CosineAnnealingLR(optimizer, steps)
    return ConstantLR(optimizer, factor=1.0, total_iters=0)
