"""The set tasks by name, from easy for sums to hard for all aggregators."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from treefold.algebra import (
    BitwiseOr,
    BitwiseXor,
    ExactMonoid,
    KthMinimum,
    Mode,
    Parity,
    State,
    SumModulo,
)
from treefold.lab.tasks.balanced import picked_evenly, planted_kth_smallest
from treefold.lab.tasks.set_data import SetData
from treefold.lab.tasks.set_task import BALANCED, SetTask, stream
from treefold.shapes import Int


@dataclass(frozen=True)
class KthSmallest(SetTask):
    """The k-th smallest integer, counting repetitions; for k = 2 the paper's 2nd-minimum.

    Of a set with fewer than k integers it is infinity in the monoid, which `bits` bits cannot hold.
    `saturate` makes it the largest integer, 255 (the paper does not specify this); otherwise
    it is the largest integer of the set, as if sets could not run out.
    """

    name: ClassVar[str] = "second-minimum"

    k: int = 2
    saturate: bool = True

    @property
    def monoid(self) -> ExactMonoid:
        """The k smallest, sorted."""
        return KthMinimum(self.k)

    def answer(self, state: State) -> Int[Tensor, " sets"]:
        """The k-th smallest, or what stands for it in sets of fewer than k."""
        smallest = cast(Tensor, state)
        if self.saturate:
            return smallest[..., -1].clamp(max=self.num_values - 1)
        return smallest.where(smallest < self.num_values, 0).amax(-1)

    def balanced(self, size: int, seed: int) -> SetData:
        """The answer t is uniform; k - 1 integers are uniform up to t, the others from t on."""
        generator = stream(seed, BALANCED + size)
        values = planted_kth_smallest(self.num_evaluation, size, self.num_values, self.k, generator)
        return self.label(values.flatten(), torch.full((self.num_evaluation,), size))


@dataclass(frozen=True)
class SumParity(SetTask):
    """The parity of the sum: 1 if it is odd."""

    name: ClassVar[str] = "parity"

    @property
    def monoid(self) -> ExactMonoid:
        """Addition modulo 2."""
        return Parity()

    @property
    def answer_bits(self) -> int:
        """One."""
        return 1


@dataclass(frozen=True)
class CountOdd(SetTask):
    """The number of odd integers, modulo m."""

    name: ClassVar[str] = "count-modulo"

    m: int = 5

    @property
    def monoid(self) -> ExactMonoid:
        """Addition modulo m."""
        return SumModulo(self.m)

    @property
    def answer_bits(self) -> int:
        """As many as m - 1 needs."""
        return max(1, (self.m - 1).bit_length())

    def encode(self, values: Int[Tensor, " n"]) -> State:
        """One for each odd integer."""
        return self.monoid.encode(values % 2)


@dataclass(frozen=True)
class MostFrequent(SetTask):
    """The most frequent integer, the smallest of them where several are; 4 bits by default.

    With 8 bits, small sets hardly repeat an integer and the task is nearly the minimum.
    """

    name: ClassVar[str] = "mode"

    bits: int = 4

    @property
    def monoid(self) -> ExactMonoid:
        """The count of each integer."""
        return Mode(self.num_values)

    def balanced(self, size: int, seed: int) -> SetData:
        """As often each answer; among uniform sets small ones win, because they win ties."""
        return picked_evenly(self, size, stream(seed, BALANCED + size))


@dataclass(frozen=True)
class Xor(SetTask):
    """The bitwise exclusive or: a parity in every bit."""

    name: ClassVar[str] = "xor"

    @property
    def monoid(self) -> ExactMonoid:
        """Exclusive or."""
        return BitwiseXor()


@dataclass(frozen=True)
class Or(SetTask):
    """The bitwise or: in every bit, whether any integer has it."""

    name: ClassVar[str] = "bitwise-or"

    @property
    def monoid(self) -> ExactMonoid:
        """Or."""
        return BitwiseOr()

    def balanced(self, size: int, seed: int) -> SetData:
        """Integers are uniform among those without the bits that a uniform answer lacks."""
        generator, shape = stream(seed, BALANCED + size), (self.num_evaluation, size)
        answer = torch.randint(0, self.num_values, (self.num_evaluation, 1), generator=generator)
        values = torch.randint(0, self.num_values, shape, generator=generator) & answer
        return self.label(values.flatten(), torch.full((self.num_evaluation,), size))


SET_TASKS: dict[str, Callable[..., SetTask]] = {
    task.name: task for task in (KthSmallest, SumParity, CountOdd, MostFrequent, Xor, Or)
}
"""By name: `SET_TASKS[name](**options)`."""
