"""The fold where no gradient is to come: an operator may know a shorter way."""

from typing import Protocol, runtime_checkable

import torch

from treefold.algebra.monoid import Monoid, State
from treefold.reduction.plan import TreePlan
from treefold.reduction.rows import Rows, num_rows
from treefold.reduction.tree import tree_reduce


@runtime_checkable
class InfersTrees(Protocol):
    """An operator with a faster fold for inference."""

    def infer_tree(self, x: Rows, plan: TreePlan) -> State:
        """The same as `tree_reduce(self, x, plan)`, to rounding, without gradients."""
        ...


@torch.no_grad()
def infer_reduce(op: Monoid, x: Rows, plan: TreePlan) -> State:
    """What `tree_reduce` gives, to rounding, without gradients."""
    if not isinstance(op, InfersTrees):
        return tree_reduce(op, x, plan)
    if num_rows(x) != plan.num_rows:
        raise ValueError(f"there are {num_rows(x)} rows, but the plan is for {plan.num_rows}")
    return op.infer_tree(x, plan)
