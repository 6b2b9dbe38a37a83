"""Operators that tell on their callers: which tree was folded, and with how many applications."""

from typing import Any

import torch
from torch import Tensor
from trees import scramble

from treefold.algebra import State, stack_size


class Scramble:
    """On integers, neither associative nor commutative: equal answers mean equal trees."""

    identity = torch.tensor(-1)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return scramble(a, b)


class Counting:
    """Another operator, with its applications and its calls counted."""

    def __init__(self, op: Any) -> None:
        self.op, self.applications, self.calls = op, 0, 0

    @property
    def identity(self) -> State:
        return self.op.identity

    def __call__(self, a: State, b: State) -> State:
        self.applications += stack_size(a, b)
        self.calls += 1
        return self.op(a, b)

    def counted(self) -> int:
        """The applications since the last question."""
        count, self.applications = self.applications, 0
        return count


def integers(*shape: int) -> Tensor:
    return torch.randint(0, 1_000_003, shape)
