"""The loop, as a generator: it trains; the caller evaluates, saves and stops.

All randomness of a step is drawn from (seed, step, rank), and the order of the data from (seed,
epoch), so a run that resumes from any step has the numbers of one that never stopped.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from treefold.aggr import Penalties, record_penalties
from treefold.lab.runs.world import World


@runtime_checkable
class Batch(Protocol):
    """Examples for one step."""

    def __len__(self) -> int: ...

    def to(self, device: torch.device | str, /) -> "Batch":
        """The same examples on another device."""


@runtime_checkable
class Examples(Protocol):
    """Data to learn from, such as sets or graphs with their answers."""

    def __len__(self) -> int: ...

    def take(self, chosen: Tensor, /) -> Batch:
        """The examples with these numbers, in this order."""


Loss = Callable[[nn.Module, Any], tuple[Tensor, dict[str, Tensor]]]
"""The loss of a batch of examples, and sums over them of whatever else is counted."""


class Losses(NamedTuple):
    """The results of a batch: its loss, sums of what else is counted, and law losses."""

    loss: Tensor
    counts: dict[str, Tensor]
    penalties: Penalties

    def total(self) -> Tensor:
        """The loss to take gradients of: with law losses, by their weights."""
        return self.loss + self.penalties.total().to(self.loss.device)


def losses_of(model: nn.Module, batch: Any, loss_of: Loss) -> Losses:
    """One forward pass, with the law losses of every aggregator in it."""
    with record_penalties() as penalties:
        loss, counts = loss_of(model, batch)
    return Losses(loss, counts, penalties)


Batches = Callable[[Any, int, torch.Generator], Sequence[Tensor]]
"""The examples that each step of an epoch takes, from the data, the size of a batch, and chance."""


def shuffled(data: Examples, batch_size: int, generator: torch.Generator) -> Sequence[Tensor]:
    """All examples in a fresh order; the last batch may be smaller."""
    order = torch.randperm(len(data), generator=generator)
    return [order[start : start + batch_size] for start in range(0, len(data), batch_size)]


@dataclass
class Progress:
    """The epoch and step of a run, and the sums over its epoch so far: enough for a checkpoint."""

    epoch: int = 1
    step: int = 0
    """Steps done in this epoch."""
    loss: float = 0.0
    sets: int = 0
    """Examples so far, whatever they are."""
    counts: dict[str, float] = field(default_factory=dict)
    penalties: dict[str, float] = field(default_factory=dict)

    def next_epoch(self) -> None:
        """Begin another epoch, with empty sums."""
        self.__init__(epoch=self.epoch + 1)  # type: ignore[misc]

    def state(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    def means(self) -> dict[str, float]:
        """The loss, what else was counted, and the law losses without weights, per example."""
        laws = {f"penalty:{law}": total for law, total in self.penalties.items()}
        sums = {"loss": self.loss, **self.counts, **laws}
        return {name: total / self.sets for name, total in sums.items()}


class NonFinite(RuntimeError):
    """A loss or a gradient is not a number any more; nothing has been changed by it."""


def is_finite(model: nn.Module, optimizer: Optimizer) -> bool:
    """True if all parameters, and the optimiser's state, are finite."""
    remembered = (entry for state in optimizer.state.values() for entry in state.values())
    tensors = (value for value in (*model.parameters(), *remembered) if isinstance(value, Tensor))
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def num_steps(num_sets: int, batch_size: int) -> int:
    """Steps per epoch; the last batch may be smaller."""
    return math.ceil(num_sets / batch_size)


def fit(
    world: World,
    model: nn.Module,
    optimizer: Optimizer,
    scheduler: LRScheduler | None,
    data: Examples,
    loss_of: Loss,
    *,
    batch_size: int,
    clip_norm: float | None,
    seed: int,
    progress: Progress,
    batches: Batches = shuffled,
) -> Iterator[Progress]:
    """Train forever; yields after every step, with the sums of the epoch so far.

    An epoch is over when `progress.step` has reached the number of its batches; the next step
    begins another. `scheduler` is stepped with every batch; one that waits for validations is for
    the caller.
    """
    chosen_by_step = batches(data, batch_size, _generator(seed, progress.epoch))
    while True:
        if progress.step == len(chosen_by_step):
            progress.next_epoch()
            chosen_by_step = batches(data, batch_size, _generator(seed, progress.epoch))
        while progress.step < len(chosen_by_step):
            chosen = chosen_by_step[progress.step]
            mine = chosen[world.rank :: world.size]
            weight = len(mine) * world.size / len(chosen)
            world.seed(_mixed(seed, progress.epoch, progress.step, world.rank))
            model.train()
            # Fewer examples than processes: the others take one that weighs nothing.
            taken = mine if len(mine) else chosen[:1]
            found = losses_of(model, data.take(taken).to(world.device), loss_of)
            loss, counts, penalties = found
            optimizer.zero_grad()
            total = found.total()
            # Processes average their gradients: a smaller share of the batch counts for less.
            world.backward(total if weight == 1 else total * weight)
            norm = world.clip(model, optimizer, clip_norm or math.inf)
            laws = penalties.by_law()
            _require_finite(world, loss.detach(), norm.detach(), laws, progress)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()

            counted = [count * min(1, len(mine)) for count in counts.values()]
            weighed = torch.tensor([*laws.values()], device=loss.device) * len(mine)
            own = torch.cat([torch.stack([loss.detach() * len(mine), *counted]), weighed])
            whole, *sums = world.sum(own).tolist()
            progress.loss += whole
            _add(progress.counts, counts, sums[: len(counts)])
            _add(progress.penalties, laws, sums[len(counts) :])
            progress.sets += len(chosen)
            progress.step += 1
            yield progress


def _add(totals: dict[str, float], names: Iterable[str], values: Iterable[float]) -> None:
    for name, value in zip(names, values, strict=True):
        totals[name] = totals.get(name, 0.0) + value


def _generator(seed: int, epoch: int) -> torch.Generator:
    return torch.Generator().manual_seed(_mixed(seed, epoch))


def _mixed(*numbers: int) -> int:
    """One seed from several numbers, such that nearby ones are far apart."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 0x9E3779B97F4A7C15 + number + 1) % (1 << 63)
        mixed ^= mixed >> 31
    return mixed


def _require_finite(
    world: World, loss: Tensor, norm: Tensor, penalties: dict[str, float], progress: Progress
) -> None:
    finite = bool(loss.isfinite()) and (bool(norm.isfinite()) or world.skips_overflow())
    if not world.any(not finite):
        return
    raise NonFinite(
        f"at epoch {progress.epoch}, step {progress.step + 1}, the loss is {float(loss):g}, its "
        f"gradient's norm {float(norm):g}, law losses {penalties or 'none'}; this step was not "
        "taken. Try a smaller training.learning_rate, training.clip_norm=1, smaller law weights, "
        "or --precision 32-true"
    )
