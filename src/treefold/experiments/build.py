"""From a recipe to modules: networks, optimisers, schedules."""

from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LRScheduler, OneCycleLR

from treefold.aggregators import aggregator
from treefold.experiments.recipe import Experiment, Training
from treefold.models import OracleNetwork, SetNetwork


def build_model(experiment: Experiment) -> nn.Module:
    """The network of a recipe; `oracle` gets the exact monoid of its task."""
    choice, task = experiment.aggregator, experiment.task
    if choice.name == "oracle":
        return OracleNetwork(task)
    channels = experiment.model.channels
    try:
        made = aggregator(choice.name, channels, **choice.options)
    except TypeError as error:
        raise ValueError(f"aggregator {choice.name} with {choice.options}: {error}") from None
    return SetNetwork(task.bits, task.answer_bits, channels, made)


def build_optimizer(model: nn.Module, training: Training) -> Optimizer:
    """The optimiser of a recipe."""
    kinds: dict[str, type[Adam]] = {"adam": Adam, "adamw": AdamW}
    return kinds[training.optimizer](
        model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )


def build_schedule(optimizer: Optimizer, training: Training, steps: int) -> LRScheduler:
    """The learning-rate schedule of a recipe, over `steps` steps in all."""
    if training.schedule == "one-cycle":
        return OneCycleLR(optimizer, training.learning_rate, total_steps=steps + 1)
    if training.schedule == "cosine":
        return CosineAnnealingLR(optimizer, steps)
    return ConstantLR(optimizer, factor=1.0, total_iters=0)
