"""Operations of a fold off the CPU: what a GPU would be given to do, counted on CPU tensors.

    python -m benchmarks.gpu_operations

Views are not counted, and a launch of a Triton kernel is one operation. Kernels are not run, so
their values are not looked at.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.pages import table
from treefold.fold import TableRows, plan_tree, tree_reduce
from treefold.operators import OPERATORS
from treefold.operators.gpu import choice, triton_gates

OPERATOR_NAMES = ("binary-gru", "gated-selection")
COLUMNS = ("operator", "levels", "forward", "backward")


class Counted(TorchDispatchMode):
    """Count operations; views are not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = op._schema.returns
        is_view = results and all(
            each.alias_info is not None and not each.alias_info.is_write for each in results
        )
        if not is_view:
            self.names.append(str(op))
        return op(*args, **(kwargs or {}))


def operations(
    operator: Any, x: Tensor, plan: Any, rows: Tensor | None = None
) -> tuple[list[str], list[str]]:
    """The names of operations forward and backward."""
    x = x.detach().requires_grad_()
    counted = Counted()

    def launched(kernel: Any, *_: Any, **__: Any) -> None:
        counted.names.append(kernel.fn.__name__)

    def gates_for(name: str, device: Any, channels: int, kinds: Any, settings: Any, _: Any) -> Any:
        return choice.gates_in_triton(name, kinds, settings)

    with ExitStack() as patches:
        for module, name, value in (
            (choice, "ON_CPU", True),
            (choice, "gates_for", gates_for),
            (triton_gates, "launch", launched),
        ):
            patches.enter_context(patch.object(module, name, value))
        given = x if rows is None else TableRows(x, rows)
        tree_reduce(operator, given, plan)  # the plan looks up what it keeps
        counted.names = []
        with counted:
            groups = cast(Tensor, tree_reduce(operator, given, plan))
        forward, counted.names = counted.names, []
        inputs = [x, *operator.parameters()]
        with counted:
            torch.autograd.grad(groups, inputs, torch.ones_like(groups), allow_unused=True)
    return forward, [name for name in counted.names if "ones_like" not in name]


def rows_of_table() -> Sequence[list[str]]:
    found = []
    for name in OPERATOR_NAMES:
        operator = OPERATORS[name](32)
        for size in (16, 1000):
            plan = plan_tree([size, 3, 1, 0] * 8)
            x = torch.randn(plan.num_rows, 32)
            counts = [str(len(each)) for each in operations(operator, x, plan)]
            found.append([name, str(plan.depth), *counts])
    return found


def main() -> None:
    """Print the table."""
    print("\n".join(table(COLUMNS, list(rows_of_table()))))


if __name__ == "__main__":
    main()
