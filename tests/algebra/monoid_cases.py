"""Every exact monoid with values to feed it: the shared parameter list of the algebra tests."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from treefold.algebra import (
    BitwiseOr,
    BitwiseXor,
    CountModulo,
    ExactMonoid,
    Gcd,
    Histogram,
    KthMinimum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Mode,
    Parity,
    Product,
    State,
    Sum,
    SumModulo,
    TopK,
    Variance,
    identity_like,
    map_state,
)

REALS = st.floats(-100, 100, width=32)
NONNEGATIVE = st.floats(0, 100, width=32)
INTEGERS = st.integers(-1000, 1000)
DIGITS = st.integers(0, 4)


@dataclass(frozen=True)
class Case:
    monoid: ExactMonoid
    values: st.SearchStrategy
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{self.monoid}-{str(self.dtype).removeprefix('torch.')}"

    def fold(self, values: list) -> State:
        """The monoid's element for a multiset of values, as a stack of one."""
        return fold(self.monoid, torch.tensor(values, dtype=self.dtype))


CASES = [
    Case(Sum(), REALS, torch.float64),
    Case(Sum(), INTEGERS, torch.int64),
    Case(Max(), REALS, torch.float32),
    Case(Max(), INTEGERS, torch.int64),
    Case(Max(), st.booleans(), torch.bool),
    Case(Max(bottom=0.0), NONNEGATIVE, torch.float32),
    Case(Max(bottom=0.1), st.floats(0.1, 1), torch.float64),
    Case(Min(), REALS, torch.float32),
    Case(Min(), INTEGERS, torch.int16),
    Case(Min(top=0.0), NONNEGATIVE.map(lambda x: -x), torch.float32),
    Case(LogSumExp(), REALS, torch.float64),
    Case(Mean(), REALS, torch.float64),
    Case(Mean(), INTEGERS, torch.int64),
    Case(Variance(), REALS, torch.float64),
    Case(Variance(unbiased=True), REALS, torch.float64),
    Case(KthMinimum(), REALS, torch.float32),
    Case(KthMinimum(3), INTEGERS, torch.int64),
    Case(TopK(2), REALS, torch.float32),
    Case(TopK(3), INTEGERS, torch.int32),
    Case(SumModulo(7), INTEGERS, torch.int64),
    Case(SumModulo(5), DIGITS, torch.float32),
    Case(Parity(), st.booleans(), torch.bool),
    Case(Parity(), INTEGERS, torch.int64),
    Case(CountModulo(3), REALS, torch.float32),
    Case(CountModulo(1), INTEGERS, torch.int64),
    Case(BitwiseOr(), INTEGERS, torch.int64),
    Case(BitwiseXor(), INTEGERS, torch.int64),
    Case(BitwiseXor(), st.booleans(), torch.bool),
    Case(Gcd(), INTEGERS, torch.int64),
    Case(Histogram(5), DIGITS, torch.int64),
    Case(Mode(5), DIGITS, torch.uint8),
    Case(Product(Sum(), Mean(), KthMinimum(2)), REALS, torch.float64),
    Case(Product(Product(Min(), Max()), Gcd()), INTEGERS, torch.int64),
]


def fold(monoid: ExactMonoid, values: Tensor) -> State:
    """Encode `values`, `[n, *feature]`, and fold them from the left, as a stack of one element."""
    like = monoid.encode(values.new_zeros(1, *values.shape[1:]))
    out = identity_like(monoid, like)
    for place in range(len(values)):
        out = monoid(out, monoid.encode(values[place : place + 1]))
    return out


def multisets(case: Case, arity: int) -> st.SearchStrategy[list[tuple[list, ...]]]:
    """Samples of `arity` multisets of values each; some are empty."""
    return st.lists(st.tuples(*[st.lists(case.values, max_size=3)] * arity), min_size=1, max_size=4)


def stacks(case: Case, samples: list[tuple[list, ...]]) -> list[State]:
    """The elements of `multisets`, stacked by argument; the fold of nothing is the identity."""
    return [concatenate(map(case.fold, column)) for column in zip(*samples, strict=True)]


def concatenate(states) -> State:
    return map_state(lambda *tensors: torch.cat(tensors), *states)


@dataclass(frozen=True)
class Operator:
    """A monoid of two functions, lawful or not."""

    combine: Callable[[State, State], State]
    identity: State

    def __call__(self, a: State, b: State) -> State:
        return self.combine(a, b)


SUBTRACTION = Operator(torch.sub, torch.tensor(0.0))
MULTIPLICATION = Operator(torch.mul, torch.tensor(1.0))
