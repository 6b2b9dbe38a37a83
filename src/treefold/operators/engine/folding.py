"""Folds over trees by compiled operations, where they can be used; else in plain torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from treefold.fold import Fold, Rows, TableRows, TreePlan, fold_levels
from treefold.operators.engine.operations import Operation, can_compute, compiled
from treefold.operators.gpu import choice as off_cpu
from treefold.operators.operator import Operator
from treefold.operators.transforms import HALF_TYPES, precisions

CHUNK = 1 << 14
"""Numbers of state that a thread makes at once; what it needs for them fits its core's cache."""
NUM_PLAN = 4
"""Tensors of a plan: leaves, levels, children, places."""

Parameters: TypeAlias = Sequence[Tensor | None]


class TreeFold:
    """The fold of an operator: in compiled operations, or in plain ones.

    `combine(a, b, parameters, factor_type, *settings)` is a ⊕ b in plain operations, for states in
    full precision; factors of products are of `factor_type`. `num_saved` is how many numbers a
    compiled fold saves for the gradient, per pair and inner row.
    """

    def __init__(
        self,
        name: str,
        num_parameters: int,
        num_saved: Callable[[Parameters], int | torch.SymInt],
        combine: Callable[..., Tensor],
    ) -> None:
        self.name, self.num_parameters = name, num_parameters
        self.num_saved, self.combine = num_saved, combine
        self.operation = compiled(
            Operation(name, 2 + num_parameters, NUM_PLAN, 2, self._empty, self._plain, True)
        )

    def fold(
        self, op: Operator, x: Rows, plan: TreePlan, parameters: Parameters, *settings: float
    ) -> Fold:
        """The groups and all nodes."""
        rows = x.table if isinstance(x, TableRows) else x
        if (
            not isinstance(rows, Tensor)
            or rows.dim() < 2
            or rows.shape[-1] != op.channels
            or not rows.is_floating_point()
        ):
            raise _wrong_rows(rows, op.channels)
        state_type = factor_type = rows.dtype
        if not rows.is_cpu or torch.is_autocast_enabled("cpu") or state_type in HALF_TYPES:
            state_type, factor_type = precisions(rows)
        table, identity = rows.to(state_type), op.identity.to(state_type)
        if op.identity.dtype in HALF_TYPES:  # a module in half precision
            parameters = [None if each is None else each.to(state_type) for each in parameters]
        tensors = (table, identity, *parameters)
        plain = partial(self._in_plain_torch, x, plan, factor_type, settings)
        gates = None
        if off_cpu.ON_CPU or not table.is_cpu:
            gates = off_cpu.gates_of(self.name, tensors, settings, self._in_plain_torch)
        if gates is not None:
            found = off_cpu.fold(self.name, gates, x, plan, tensors, factor_type, plain)
        elif factor_type != torch.float16 and can_compute(*tensors):
            found = self._compiled(x, plan, tensors, settings, factor_type == torch.bfloat16)
        else:
            found = plain(*tensors)
        if rows.dtype == state_type:
            return found
        return Fold(*(cast(Tensor, part).to(rows.dtype) for part in found))

    def _in_plain_torch(
        self,
        x: Rows,
        plan: TreePlan,
        factor_type: torch.dtype,
        settings: Sequence[float],
        table: Any,
        identity: Any,
        *parameters: Any,
    ) -> Fold:
        op = _Plain(self.combine, parameters, factor_type, settings, identity)
        leaves: Rows = table
        if isinstance(x, TableRows):
            leaves = TableRows(table, x.rows, x.is_permutation)
        return fold_levels(op, leaves, plan)

    def combined(
        self, op: Operator, a: Tensor, b: Tensor, parameters: Parameters, *settings: float
    ) -> Tensor:
        """a ⊕ b, row by row."""
        if a.shape[-1:] != (op.channels,):
            raise _wrong_rows(a, op.channels)
        if can_compute(a, b, op.identity, *parameters) and a.shape == b.shape:
            rows = torch.stack([a, b], -2).flatten(0, -2)
            plan = TreePlan.of_pairs(rows.shape[0] // 2)
            nodes = cast(Tensor, self.fold(op, rows, plan, parameters, *settings).nodes)
            return nodes.clone().view(a.shape)  # not a part of what is saved for the gradient
        state_type, factor_type = precisions(a)
        of_a, of_b = a.to(state_type), b.to(state_type)
        return self.combine(of_a, of_b, parameters, factor_type, settings).to(a.dtype)

    def _compiled(
        self,
        x: Rows,
        plan: TreePlan,
        tensors: Parameters,
        settings: Sequence[float],
        half: bool,
    ) -> Fold:
        leaves, repeats = plan.leaves, False
        if isinstance(x, TableRows):
            leaves = x.rows.index_select(0, leaves).long()
            repeats = x.table.shape[0] < plan.num_rows
        saves = False
        if torch.is_grad_enabled():
            for each in tensors:  # many times faster than a generator
                saves = saves or (each is not None and each.requires_grad)
        groups, states, _ = self.operation.call(
            *(*tensors, leaves, *plan.tables),
            *(*settings, repeats, half, CHUNK, saves),
        )
        return Fold(groups, states[plan.num_rows :])

    def _empty(self, x: Tensor, *others: Any) -> tuple[Tensor, ...]:
        leaves, _, children, places = others[1 + self.num_parameters :][:NUM_PLAN]
        num_nodes, saves = children.shape[0], others[-1]
        num_saved = self.num_saved(others[1 : 1 + self.num_parameters])
        return (
            x.new_empty(places.shape[0], *x.shape[1:]),
            x.new_empty(leaves.shape[0] + num_nodes, *x.shape[1:]),
            x.new_empty(num_nodes if saves else 0, *x.shape[1:-1], num_saved),
        )

    def _plain(self, x: Tensor, identity: Tensor, *others: Any) -> list[Tensor]:
        """Groups and states, from the arguments of the operation."""
        parameters, rest = others[: self.num_parameters], others[self.num_parameters :]
        (leaves, levels, children, places), settings = rest[:NUM_PLAN], rest[NUM_PLAN:-4]
        states, made = x.index_select(0, leaves), 0
        for count in levels[:, 0].tolist():
            pairs = children[made : made + count]
            a, b = (states.index_select(0, side) for side in pairs.unbind(1))
            nodes = self.combine(a, b, parameters, x.dtype, settings)
            states, made = torch.cat([states, nodes]), made + count
        blank = identity.expand(1, *x.shape[1:])
        return [torch.cat([blank, states]).index_select(0, places + 1), states]


@dataclass(frozen=True)
class _Plain:
    """An operator in plain operations."""

    combine: Callable[..., Tensor]
    parameters: Parameters
    factor_type: torch.dtype
    settings: Sequence[float]
    identity: Tensor

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return self.combine(a, b, self.parameters, self.factor_type, self.settings)


def _wrong_rows(rows: object, channels: int) -> ValueError:
    given = f"a {type(rows).__name__}"
    if isinstance(rows, Tensor):
        given = f"{rows.dtype} of shape {tuple(rows.shape)}"
    return ValueError(
        f"rows are {given}; expected a tensor [n, ..., {channels}] of floating-point numbers"
    )
