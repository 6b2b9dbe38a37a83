"""Laws of commutative monoids: each is written once, to be asserted, penalized and reported."""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature

import torch
from torch import Tensor

from treefold.algebra.monoid import (
    Monoid,
    State,
    describe,
    identity_like,
    map_state,
    stack_size,
    take,
    tensors_of,
)
from treefold.algebra.partial import Partial
from treefold.algebra.violation import Violation, compare, default_tolerance, difference


@dataclass(frozen=True)
class Law:
    """An equation between elements: `sides(op, *elements)` gives its left and its right side.

    Elements are stacks, `[n, *feature]` or tuples of such tensors; the law is about each of the n
    samples by itself. `arity` is the number of elements it speaks of. The last `num_inputs` of
    them are what a recurrent cell is given, all others are states. Reports call it by its `label`,
    where it has one, records and losses by its name.
    """

    name: str
    arity: int
    sides: Callable[..., tuple[State, State]] = field(repr=False)
    num_inputs: int = 0
    label: str = ""

    def __post_init__(self) -> None:
        try:
            signature(self.sides).bind(*range(1 + self.arity))
        except TypeError:
            raise ValueError(
                f"the law {self.name} speaks of {self.arity} elements, so its function gets "
                f"{1 + self.arity} arguments, the operator first; it takes {signature(self.sides)}"
            ) from None

    def violation(self, op: Callable[..., State], *elements: State) -> Violation:
        """The distance between the two sides for each sample, without recording gradients."""
        with torch.no_grad():
            return compare(*self._evaluate(op, elements))

    def loss(
        self,
        op: Callable[..., State],
        *elements: State,
        reduction: str = "sum",
    ) -> Tensor:
        """The mean over samples of `|left - right|²`, as in the paper's L_comm and L_assoc.

        `reduction` is for the squares within a sample: their `"sum"` is the paper's
        `|·|²`, their `"mean"` does not grow with the width of the state. No samples cost nothing,
        yet every parameter of `op` still receives a (zero) gradient.
        """
        if reduction not in ("sum", "mean"):
            raise ValueError(f"unknown reduction {reduction!r}; use 'sum' or 'mean'")
        left, right = self._evaluate(op, elements)
        squares = [gap.square() for gap in tensors_of(map_state(difference, left, right))]
        total = torch.stack([square.sum() for square in squares]).sum()
        count = stack_size(left) if reduction == "sum" else sum(map(torch.numel, squares))
        return total / max(count, 1)

    def assert_holds(
        self,
        op: Callable[..., State],
        *elements: State,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> None:
        """Raise an AssertionError that shows the worst sample unless all of them obey the law.

        A sample obeys it if the sides are within `atol`, or relatively within `rtol`. Both default
        to ε^¾ for the coarsest type involved (6e-6 for float32) and to exactness for integers.
        """
        with torch.no_grad():
            left, right = self._evaluate(op, elements)
        rtol = default_tolerance(left, right) if rtol is None else rtol
        atol = default_tolerance(left, right) if atol is None else atol
        violation = compare(left, right)
        broken = ~violation.within(rtol, atol)
        if not broken.any():
            return
        badness = violation.absolute.nan_to_num(nan=torch.inf, posinf=torch.inf)
        worst = int(badness.masked_fill(~broken, -1).argmax())
        raise AssertionError(
            f"{self.name} fails for {int(broken.sum())} of {len(broken)} samples; "
            f"the worst is sample {worst}:\n"
            f"  left:  {take(left, worst)}\n"
            f"  right: {take(right, worst)}\n"
            f"They differ by {violation.absolute[worst]:.3g} (allowed: {atol:.3g}), "
            f"relatively by {violation.relative[worst]:.3g} (allowed: {rtol:.3g})."
        )

    def _evaluate(
        self, op: Callable[..., State], elements: tuple[State, ...]
    ) -> tuple[State, State]:
        if len(elements) != self.arity:
            raise ValueError(
                f"{self.name} speaks of {self.arity} elements, but {len(elements)} were given"
            )
        sizes = [stack_size(element) for element in elements]
        if len(set(sizes)) != 1:
            raise ValueError(
                f"{self.name} takes stacks of one size, but those given hold {sizes} elements"
            )
        sides = self.sides(op, *elements)
        if not isinstance(sides, tuple) or len(sides) != 2:
            raise ValueError(
                f"the function of the law {self.name} gives {describe(sides)}; expected its two "
                "sides, (left, right)"
            )
        return sides


def _merge_with_nothing(op: Monoid, a: State) -> tuple[State, State]:
    """An empty part merged with a, from either side, as folds in parts merge it."""
    held, nothing = Partial.of(a), Partial.nothing(stack_size(a), a)
    return (held.merged(nothing, op).value(op), nothing.merged(held, op).value(op)), (a, a)


# Empty is formal wherever parts are merged, and so this holds for every operator, learned or not.
FORMAL_IDENTITY = Law("identity (formal)", 1, _merge_with_nothing)
# As an element e is like any other. Both products with it, as one state: each may move a.
IDENTITY = Law(
    "identity",
    1,
    lambda op, a: ((op(a, e := identity_like(op, a)), op(e, a)), (a, a)),
    label="identity (of e)",
)
COMMUTATIVITY = Law("commutativity", 2, lambda op, a, b: (op(a, b), op(b, a)))
ASSOCIATIVITY = Law("associativity", 3, lambda op, a, b, c: (op(op(a, b), c), op(a, op(b, c))))

# What makes the fold of a recurrent cell(state, x) indifferent to order (Cohen-Karlik et al. 2020).
SWAP = Law("swap", 3, lambda f, s, x, y: (f(f(s, x), y), f(f(s, y), x)), num_inputs=2)

MONOID_LAWS = (IDENTITY, COMMUTATIVITY, ASSOCIATIVITY)
