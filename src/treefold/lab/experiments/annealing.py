"""Annealing as a part of training: a recipe names when states sharpen, and when they are codes."""

from typing import Protocol, runtime_checkable

from torch import nn

from treefold.lab.experiments.recipe import Training


@runtime_checkable
class Anneals(Protocol):
    """An operator with finite states."""

    hard: bool

    def anneal(self, slope: float, noise: float, hard: bool) -> None:
        """Set how sharp states are."""
        ...


class Annealing:
    """Leads the operators of a model to codes, as in their recipe."""

    def __init__(self, model: nn.Module, training: Training) -> None:
        self.training = training
        self.parts = [part for part in model.modules() if isinstance(part, Anneals)]
        if not training.anneals:
            self.parts = []

    def set(self, done: float) -> None:
        """Anneal as far as it should be when this part of all epochs is done.

        The slope grows by equal factors from `anneal_from` to `hard_from`.
        """
        start, end = self.training.anneal_from, self.training.hard_from
        part = min(1.0, max(0.0, done - start) / (end - start)) if end > start else 1.0
        hard = done >= end and end < 1
        for each in self.parts:
            each.anneal(self.training.last_slope**part, self.training.noise, hard)

    @property
    def is_over(self) -> bool:
        """True if all states are codes; where nothing anneals, always."""
        return all(part.hard for part in self.parts)
