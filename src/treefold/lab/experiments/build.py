"""From a recipe to what runs: networks, optimisers, schedules."""

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
from treefold.lab.experiments.catalogue import runner_of
from treefold.lab.experiments.recipe import Experiment, Training
from treefold.lab.experiments.task_runner import TaskRunner
from treefold.names import require_one_of


def require_aggregator(experiment: Experiment) -> None:
    """Refuse an aggregator that is unknown, or does not take its options, before work begins."""
    choice, runner = experiment.aggregator, runner_of(experiment, seed=0)
    _require_name(runner)
    if choice.name not in runner.other_aggregators:
        with torch.random.fork_rng(devices=[]):
            _as_value_error(runner, lambda: aggregator(choice.name, 8, **choice.options))


def build_model(runner: TaskRunner) -> nn.Module:
    """The network of a recipe."""
    runner.require_data()  # which may register the aggregator
    _require_name(runner)
    return _as_value_error(runner, runner.model)


def _require_name(runner: TaskRunner) -> None:
    names = [*AGGREGATORS, *runner.other_aggregators]
    require_one_of(names, runner.experiment.aggregator.name, "aggregator")


def _as_value_error(runner: TaskRunner, make: Callable[[], nn.Module]) -> nn.Module:
    """The result of `make`; options of a wrong type are the recipe's mistake."""
    choice = runner.experiment.aggregator
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

    `highest` is true if the numbers given to a plateau should rise.
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
