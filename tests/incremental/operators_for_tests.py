"""Operators that tell on their callers: which tree was folded, and with how many applications."""

from typing import Any

import torch
from torch import Tensor
from trees import scramble

from treefold.algebra import State, stack_size
from treefold.fold import Fold, Rows, TreePlan


class Scramble:
    """On integers, neither associative nor commutative: equal answers mean equal trees."""

    identity = torch.tensor(-1)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return scramble(a, b)


class Failing(Scramble):
    """The same, until it has been called as often as it may be; then it raises an error."""

    def __init__(self) -> None:
        self.calls_left = 1 << 30

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        if self.calls_left == 0:
            raise RuntimeError("the operator has failed")
        self.calls_left -= 1
        return super().__call__(a, b)


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


class CountingTrees(Counting):
    """The same for an operator that folds whole trees, and paths, in one call."""

    def fold_tree(self, x: Rows, plan: TreePlan) -> Fold:
        self.applications += plan.num_applications
        self.calls += 1
        found: Fold = self.op.fold_tree(x, plan)
        return found


def integers(*shape: int) -> Tensor:
    return torch.randint(0, 1_000_003, shape)
