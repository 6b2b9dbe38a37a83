"""The standing of a run: its best validation so far, and its clock."""

import math
from dataclasses import dataclass


@dataclass
class Standing:
    """The best validation of a run so far, and the seconds it has taken."""

    best: float | None = None
    best_loss: float | None = None
    best_epoch: int = 0
    seconds: float = 0.0
    first_seconds: float = 0.0
    """The seconds of the first epoch, in which loops may be compiled."""
    hard: bool = False
    """True once annealing is over: only then can an epoch be the best."""

    def is_beaten(self, found: float, loss: float, hard: bool, highest: bool) -> bool:
        """Return if a validation is better; equal ones, such as perfect epochs, go by the loss.

        Any epoch whose states are codes is better than one where they are still soft.
        """
        if self.best is None:
            return True
        if hard != self.hard:
            return hard
        if math.isnan(self.best):  # anything is better than no number
            return True
        if found == self.best and self.best_loss is not None:
            return loss < self.best_loss
        return found > self.best if highest else found < self.best

    def take(self, epoch: int, found: float, loss: float, hard: bool) -> None:
        """Make an epoch the best."""
        self.best_epoch, self.best, self.best_loss, self.hard = epoch, found, loss, hard

    def seconds_per_epoch(self, epochs: float, every: bool) -> float:
        """The mean over epochs: over all but the first, if there are more, or over `every` one."""
        if every or epochs <= 1:
            return self.seconds / epochs if every else self.seconds
        return (self.seconds - self.first_seconds) / (epochs - 1)
