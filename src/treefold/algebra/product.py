"""Several monoids side by side, as one."""

from dataclasses import dataclass

from torch import Tensor

from treefold.algebra.exact import ExactMonoid
from treefold.algebra.monoid import State


@dataclass(frozen=True, init=False, repr=False)
class Product(ExactMonoid):
    """The monoid of tuples, combined component by component: one pass, several aggregates.

    Every component encodes the same x, and decoding gives the tuple of all their answers:
    `Product(Min(), Max())` aggregates to (minimum, maximum).
    """

    monoids: tuple[ExactMonoid, ...]

    def __init__(self, *monoids: ExactMonoid) -> None:
        if not monoids:
            raise ValueError("a product of no monoids has no states; give at least one")
        object.__setattr__(self, "monoids", monoids)

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.monoids))})"

    @property
    def identity(self) -> tuple[State, ...]:
        """The tuple of all identities."""
        return tuple(op.identity for op in self.monoids)

    def __call__(self, a: tuple[State, ...], b: tuple[State, ...]) -> tuple[State, ...]:
        """Combine component by component."""
        return tuple(op(x, y) for op, x, y in zip(self.monoids, a, b, strict=True))

    def encode(self, x: Tensor) -> tuple[State, ...]:
        """The encodings of the same `x` by all components."""
        return tuple(op.encode(x) for op in self.monoids)

    def encode_weighted(self, x: Tensor, weight: Tensor) -> tuple[State, ...]:
        """The same with a weight for each row, if all components take one."""
        return tuple(op.encode_weighted(x, weight) for op in self.monoids)

    def decode(self, state: tuple[State, ...]) -> tuple[State, ...]:
        """The answers of all components."""
        return tuple(op.decode(part) for op, part in zip(self.monoids, state, strict=True))
