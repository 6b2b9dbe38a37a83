"""Random finite multisets of elements, many at once, and their folds."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.algebra.monoid import Monoid, State
from treefold.algebra.partial import Partial
from treefold.algebra.sampling import draw_elements, draw_integers


@dataclass(frozen=True, eq=False)
class Multisets:
    """A stack of multisets: the i-th holds the i-th elements of the first `sizes[i]` members.

    `members` are stacks of one size, as many as the largest multiset has elements; `sizes` is
    `[num_multisets]`.
    """

    members: tuple[State, ...]
    sizes: Tensor

    def map(self, function: Callable[..., State]) -> "Multisets":
        """The multisets of the images of all elements."""
        return Multisets(tuple(function(member) for member in self.members), self.sizes)

    def fold(self, op: Monoid) -> State:
        """The aggregate of each multiset, one element after the other; the identity if empty."""
        return self.partial(op).value(op)

    def partial(self, op: Monoid) -> Partial:
        """The same with empty ones as such, to be merged further."""
        out = Partial(self.members[0], self.sizes <= 0)
        for place, member in enumerate(self.members[1:], 1):
            out = out.merged(Partial(member, self.sizes <= place), op)
        return out


def draw_multisets(
    samples: State, num_multisets: int, max_size: int, generator: torch.Generator | None = None
) -> Multisets:
    """Multisets of up to `max_size` samples, all sizes being equally likely.

    The first is empty and the second is a singleton, whatever was drawn.
    """
    if max_size < 1:
        raise ValueError(f"multisets of at most {max_size} elements are all empty; use at least 1")
    members = draw_elements(samples, max_size, num_multisets, generator)
    sizes = draw_integers(max_size + 1, (num_multisets,), samples, generator)
    sizes[:1], sizes[1:2] = 0, 1
    return Multisets(tuple(members), sizes)
