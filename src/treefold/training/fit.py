"""The loop, as a generator: it trains; whoever consumes it evaluates, saves and stops.

All randomness of a step is drawn from (seed, step, rank), and the order of the data from (seed,
epoch), so a run that continues from any step goes on exactly as if it had never stopped.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from treefold.aggregators import record_penalties
from treefold.tasks import SetData
from treefold.training.world import World

Loss = Callable[[nn.Module, SetData], tuple[Tensor, Tensor]]
"""The loss of a batch, and which of its sets are answered correctly."""


@dataclass
class Progress:
    """How far a run is, and the sums over its epoch so far: all that a checkpoint must know."""

    epoch: int = 1
    step: int = 0
    """Steps done in this epoch."""
    loss: float = 0.0
    correct: int = 0
    sets: int = 0
    penalties: dict[str, float] = field(default_factory=dict)

    def next_epoch(self) -> None:
        """Begin another epoch, with empty sums."""
        self.__init__(epoch=self.epoch + 1)  # type: ignore[misc]

    def state(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)


class NonFinite(RuntimeError):
    """A loss or a gradient is not a number any more; nothing has been changed by it."""


def num_steps(num_sets: int, batch_size: int) -> int:
    """Steps per epoch; the last batch may be smaller."""
    return math.ceil(num_sets / batch_size)


def fit(
    world: World,
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LRScheduler,
    data: SetData,
    loss_of: Loss,
    *,
    batch_size: int,
    clip_norm: float | None,
    seed: int,
    progress: Progress,
) -> Iterator[Progress]:
    """Train forever; yields after every step, with the sums of the epoch so far.

    An epoch is over when `progress.step` has reached `num_steps`; going on begins the next.
    """
    steps = num_steps(len(data), batch_size)
    while True:
        if progress.step == steps:
            progress.next_epoch()
        order = _order(seed, progress.epoch, len(data))
        while progress.step < steps:
            chosen = order[progress.step * batch_size : (progress.step + 1) * batch_size]
            mine = chosen[world.rank :: world.size]
            torch.manual_seed(_mixed(seed, progress.epoch, progress.step, world.rank))
            model.train()
            with record_penalties() as penalties:
                loss, correct = loss_of(model, data.take(mine).to(world.device))
            optimizer.zero_grad()
            world.backward(loss + penalties.total().to(loss.device))
            norm = world.clip(model, optimizer, clip_norm or math.inf)
            _require_finite(loss.detach(), norm.detach(), penalties.by_law(), progress)
            optimizer.step()
            scheduler.step()

            sums = world.sum(torch.stack([loss.detach() * len(mine), correct.sum()]))
            progress.loss += float(sums[0])
            progress.correct += round(float(sums[1]))
            progress.sets += len(chosen)
            for law, value in penalties.by_law().items():
                progress.penalties[law] = progress.penalties.get(law, 0.0) + value * len(chosen)
            progress.step += 1
            yield progress


def _order(seed: int, epoch: int, count: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(_mixed(seed, epoch)))


def _mixed(*numbers: int) -> int:
    """One seed from several numbers, such that nearby ones are far apart."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 0x9E3779B97F4A7C15 + number + 1) % (1 << 63)
        mixed ^= mixed >> 31
    return mixed


def _require_finite(
    loss: Tensor, norm: Tensor, penalties: dict[str, float], progress: Progress
) -> None:
    if bool(loss.isfinite()) and bool(norm.isfinite()):
        return
    raise NonFinite(
        f"at epoch {progress.epoch}, step {progress.step + 1}, the loss is {float(loss):g}, its "
        f"gradient's norm {float(norm):g}, law losses {penalties or 'none'}; this step was not "
        "taken. Try a smaller training.learning_rate, training.clip_norm=1, smaller law weights, "
        "or --precision 32-true"
    )
