"""Aggregates of parts, some of them of nothing: empty is formal, an identity of any operator."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.algebra.monoid import (
    Monoid,
    State,
    identity_like,
    map_state,
    stack_size,
    take,
    tensors_of,
)


@dataclass(frozen=True, eq=False)
class Partial:
    """A stack of aggregates, each of a part of a set, where some parts have no elements.

    `op.identity` is what an empty set gives. A learned one is a vector like any other, and changes
    what it is combined with. An empty part is no vector: merged with x it leaves x, bit for bit,
    whatever the operator. So parts folded apart (in shards, in chunks, on other days) are merged
    here, and only what is empty in the end becomes `op.identity`.
    """

    states: State
    """`[n, *feature]`; the rows of empty parts are not looked at."""
    is_empty: Tensor
    """`[n]`, booleans."""

    def __post_init__(self) -> None:
        if self.is_empty.shape != (stack_size(self.states),) or self.is_empty.dtype != torch.bool:
            raise ValueError(
                f"is_empty is {self.is_empty.dtype} of shape {tuple(self.is_empty.shape)}; "
                f"expected a boolean for each of {stack_size(self.states)} states, such as "
                "`sizes == 0`"
            )

    @classmethod
    def of(cls, states: State) -> "Partial":
        """Aggregates none of which is empty."""
        device = tensors_of(states)[0].device
        return cls(states, torch.zeros(stack_size(states), dtype=torch.bool, device=device))

    @classmethod
    def nothing(cls, count: int, like: State) -> "Partial":
        """`count` empty parts; `like` has rows of the right kind."""
        blank = map_state(lambda rows: rows.new_zeros(count, *rows.shape[1:]), like)
        device = tensors_of(like)[0].device
        return cls(blank, torch.ones(count, dtype=torch.bool, device=device))

    def merged(self, other: "Partial", op: Callable[..., State]) -> "Partial":
        """Each part with the one at its place in `other`; `op` sees those alone that both hold."""
        out = map_state(_where(self.is_empty), other.states, self.states)
        meets = (~(self.is_empty | other.is_empty)).nonzero().squeeze(1)
        if meets.numel():
            together = op(take(self.states, meets), take(other.states, meets))
            out = map_state(lambda old, new: _put(old, meets, new), out, together)
        return Partial(out, self.is_empty & other.is_empty)

    def map(self, function: Callable[..., State]) -> "Partial":
        """The images of all aggregates, empty where these are."""
        return Partial(function(self.states), self.is_empty)

    def value(self, op: Monoid) -> State:
        """The aggregates; `op.identity` where there were no elements at all."""
        return map_state(_where(self.is_empty), identity_like(op, self.states), self.states)


def _where(condition: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    def choose(rows: Tensor, others: Tensor) -> Tensor:
        return torch.where(condition.view(-1, *[1] * (rows.dim() - 1)), rows, others)

    return choose


def _put(old: Tensor, places: Tensor, new: Tensor) -> Tensor:
    dtype = torch.promote_types(old.dtype, new.dtype)
    return old.to(dtype).index_copy(0, places, new.to(dtype))
