"""How wrong can it be: how far the answers of other merge orders lie from this one.

A monoid gives one answer whatever the order. A learned operator is only nearly associative, so
every bracketing gives a slightly different one, and how different is known by trying.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, compare, map_state, require_monoid
from treefold.fold import Bracketing, Groups, plan_tree, require_rows, tree_reduce
from treefold.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class BracketingSpread:
    """Distances between an answer and those of other bracketings, in the units of the output.

    `absolute` are Euclidean norms over all features; `relative` are the same, divided by the larger
    norm of the two answers. Both are zero for sets of fewer than two elements.
    """

    absolute: Float[Tensor, " bracketings sets"]
    relative: Float[Tensor, " bracketings sets"]

    @property
    def largest(self) -> Float[Tensor, " sets"]:
        """The largest distance found for each set."""
        return self.absolute.amax(0)

    @property
    def typical(self) -> Float[Tensor, " sets"]:
        """The root of the mean squared distance for each set."""
        return self.absolute.square().mean(0).sqrt()

    def __str__(self) -> str:
        count, sets = self.absolute.shape
        if not sets:
            return f"no sets, {count} bracketings"
        typical, largest = float(self.typical.mean()), float(self.largest.max())
        return (
            f"{count} bracketings of {sets} sets: typically {typical:.3g} apart, "
            f"at most {largest:.3g} ({float(self.relative.max()):.2%} of the answer)"
        )


def bracketing_spread(
    op: Monoid,
    x: State,
    groups: Groups,
    num_bracketings: int = 8,
    generator: torch.Generator | None = None,
    decode: Callable[..., State] | None = None,
    *,
    bracketing: Bracketing = "random",
    reference: State | None = None,
) -> BracketingSpread:
    """Fold each group in `num_bracketings` other ways and measure how far the answers move.

    Each way is a fresh order of the elements and a fresh tree, of the kind `bracketing` names.
    Distances are those to `reference`, one state per group, or if it is None to what the balanced
    tree gives. `decode` turns states into outputs; by default it is the monoid's own, if it has
    one. No gradients.
    """
    require_monoid(op)
    require_bracketings(num_bracketings)
    require_rows(x, groups)
    with torch.no_grad():
        if reference is None:
            rows = map_state(lambda part: part[groups.order], x)
            reference = tree_reduce(op, rows, plan_tree(groups.sizes))
        others = []
        for _ in range(num_bracketings):
            order = groups.shuffled(generator).order
            plan = plan_tree(groups.sizes, bracketing, generator)
            others.append(tree_reduce(op, map_state(lambda part: part[order], x), plan))  # noqa: B023
        return spread_of(op, reference, others, groups.sizes, decode)


def require_bracketings(num_bracketings: int) -> None:
    """Refuse to measure with none."""
    if num_bracketings < 1:
        raise ValueError(f"{num_bracketings} bracketings measure nothing; expected 1 or more")


def spread_of(
    op: Monoid,
    answer: State,
    others: list[State],
    sizes: Int[Tensor, " sets"],
    decode: Callable[..., State] | None = None,
) -> BracketingSpread:
    """The distances between one answer per set and other answers, both decoded."""
    with torch.no_grad():
        decode = decode or getattr(op, "decode", None) or (lambda state: state)
        found = distances(decode(answer), [decode(other) for other in others])
        # One element, or none, has one bracketing; and the mean of nothing is NaN.
        certain = sizes < 2
        return BracketingSpread(
            found.absolute.masked_fill(certain, 0), found.relative.masked_fill(certain, 0)
        )


def distances(answer: State, others: list[State]) -> BracketingSpread:
    """The distances between outputs and other outputs, row by row."""
    violations = [compare(other, answer) for other in others]
    return BracketingSpread(
        torch.stack([found.absolute for found in violations]),
        torch.stack([found.relative for found in violations]),
    )
