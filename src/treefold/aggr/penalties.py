"""The channel by which law losses reach the training loss.

    with record_penalties() as penalties:
        loss = loss_fn(model(batch), batch)
    (loss + penalties.total()).backward()

Every aggregator applied inside adds its own, once per application; nothing else in between has to
know of them. `with_penalties` does all of it in one line, above the function that gives the loss.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor


class Penalty(NamedTuple):
    """The loss of one law in one application of one aggregator."""

    law: str
    loss: Tensor
    given: "float | LawWeights"

    @property
    def weight(self) -> float:
        """The weight of the law."""
        return self.given.active[self.law] if isinstance(self.given, LawWeights) else self.given


class Penalties:
    """The recorded law losses; iterating gives them weighted, for `sum(...)`."""

    def __init__(self) -> None:
        self.recorded: list[Penalty] = []

    def add(self, law: str, loss: Tensor, weight: "float | LawWeights") -> None:
        """Record the loss of one law.

        For torch.compile give all weights: it would compile twice to learn that one is fixed.
        """
        self.recorded.append(Penalty(law, loss, weight))

    def __iter__(self) -> Iterator[Tensor]:
        return (penalty.weight * penalty.loss for penalty in self.recorded)

    def __len__(self) -> int:
        return len(self.recorded)

    def total(self) -> Tensor:
        """The sum of all weighted losses; zero if there are none."""
        return torch.stack(list(self)).sum() if self.recorded else torch.zeros(())

    def by_law(self) -> dict[str, float]:
        """The mean loss of each law over its applications, without the weights: for logging."""
        laws: dict[str, list[Tensor]] = {}
        for penalty in self.recorded:
            laws.setdefault(penalty.law, []).append(penalty.loss.detach())
        return {law: float(torch.stack(losses).mean()) for law, losses in laws.items()}


_recorder: ContextVar[Penalties | None] = ContextVar("treefold_penalties", default=None)


class _Compiled:
    """The same for torch.compile, which cannot look into context variables."""

    penalties: Penalties | None = None


_compiled = _Compiled()


def _current() -> Penalties | None:
    return _compiled.penalties if torch.compiler.is_compiling() else _recorder.get()


@contextmanager
def record_penalties() -> Iterator[Penalties]:
    """Collect the law losses of every aggregator that is applied inside, in training mode.

    With `torch.utils.checkpoint`, which runs a forward pass again during the backward pass, keep
    the block open until after `backward()`.
    """
    penalties, before = Penalties(), _compiled.penalties
    token = None if torch.compiler.is_compiling() else _recorder.set(penalties)
    _compiled.penalties = penalties
    try:
        yield penalties
    finally:
        _compiled.penalties = before
        if token is not None:
            _recorder.reset(token)


Step = TypeVar("Step", bound=Callable[..., Any])


def with_penalties(step: Step) -> Step:
    """Add the law losses of all aggregators that a function applies to the loss that it gives.

    For a plain loop::

        @with_penalties
        def loss_of(batch):
            return loss_fn(model(batch), batch.y)

    The same line above `training_step` serves a `LightningModule`: the loss may be the entry "loss"
    of a mapping, and None, which leaves a batch out, stays None.
    """

    @wraps(step)
    def penalized(*args: Any, **kwargs: Any) -> Any:
        with record_penalties() as penalties:
            found = step(*args, **kwargs)
        if isinstance(found, Tensor):
            return found + penalties.total()
        if isinstance(found, Mapping) and isinstance(found.get("loss"), Tensor):
            return {**found, "loss": found["loss"] + penalties.total()}
        if found is None:
            return None
        raise ValueError(
            f"{getattr(step, '__name__', 'the function')} gives a {type(found).__name__}; expected "
            'a loss, or a mapping with one under "loss"'
        )

    return cast(Step, penalized)


class LawWeights:
    """The weights of the law losses of one module.

    Costs nothing where all weights are zero, and where nobody records, which is a mistake worth a
    warning, once.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        for law, weight in weights.items():
            if not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
                raise ValueError(f"the weight of {law} is {weight!r}; expected 0 or more")
        self.active = {law: weight for law, weight in weights.items() if weight}
        self.names = tuple(self.active)
        self._warned = False

    def recorder(self) -> Penalties | None:
        """The recorder for the losses of the active laws; None if there is nothing to record."""
        if not self.names:
            return None
        penalties = _current()
        if torch.compiler.is_compiling():
            return penalties
        if penalties is None and not self._warned:
            self._warned = True
            warnings.warn(
                f"{self} has no effect: nobody records it. Run the forward pass inside `with "
                "record_penalties() as penalties:` and add `penalties.total()` to the loss, or put "
                "`@with_penalties` above the function that gives the loss.",
                stacklevel=2,
            )
        return penalties

    def __str__(self) -> str:
        return ", ".join(f"{law}={weight:g}" for law, weight in self.active.items())
