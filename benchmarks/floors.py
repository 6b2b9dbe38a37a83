"""The bare multiplications of a training step: what no fold can do without.

A floor multiplies as many rows by as large matrices as the step must, forward and twice backward,
into memory that is there. Gates, gathers, plans, loops and calls come on top of it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from treefold.fold import TreePlan
from treefold.operators.engine.folding import TreeFold


def products(num_rows: int, *shapes: tuple[int, int]) -> Callable[[], None]:
    """Rows `[num_rows, inner]` times each `[inner, outer]`, and both gradients of that."""
    steps = []
    for inner, outer in shapes:
        weight, rows = torch.randn(outer, inner), torch.randn(num_rows, inner)
        made, to_rows = torch.randn(num_rows, outer), torch.empty(num_rows, inner)
        steps.append((weight, rows, made, to_rows, torch.empty_like(weight)))

    def run() -> None:
        for weight, rows, made, to_rows, to_weight in steps:
            torch.mm(rows, weight.t(), out=made)
            torch.mm(made, weight, out=to_rows)
            torch.mm(made.t(), rows, out=to_weight)

    return run


def binary_gru(num_pairs: int, h: int) -> Callable[[], None]:
    """Each argument once, for six gates: 12 h² multiply-adds per pair, and twice that back."""
    return products(2 * num_pairs, (h, 6 * h))


def gated_selection(num_pairs: int, h: int) -> Callable[[], None]:
    """Each argument twice, then select, keep and new: 7 h² per pair, and twice that back."""
    hidden = products(2 * num_pairs, (h, 2 * h))
    gates = products(num_pairs, (h, h), (h, 2 * h))
    return lambda: (hidden(), gates())[0]


def coupling_flow(num_rows: int, h: int, num_layers: int = 4) -> Callable[[], None]:
    """Half of the channels to a hidden layer of 2 h, and that to h: 3 h² per row and layer."""
    layer = products(num_rows, (h // 2, 2 * h), (2 * h, h))

    def run() -> None:
        for _ in range(num_layers):
            layer()

    return run


@contextmanager
def counted_pairs() -> Iterator[list[int]]:
    """Inside, the applications of each fold of an operator with a fast path are listed."""
    found: list[int] = []
    fold = TreeFold.fold

    def counted(self: TreeFold, op: Any, x: Any, plan: TreePlan, *rest: Any) -> Any:
        found.append(plan.num_applications)
        return fold(self, op, x, plan, *rest)

    with patch.object(TreeFold, "fold", counted):
        yield found
