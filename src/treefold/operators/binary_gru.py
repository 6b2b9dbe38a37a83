"""Binary-GRU: a GRU cell made commutative by averaging both argument orders."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.fold import (
    Fold,
    Rows,
    TableRows,
    TreePlan,
    fold_levels,
)
from treefold.operators.binary_gru_fold import fold_binary_gru
from treefold.operators.binary_gru_loops import loops_for
from treefold.operators.binary_gru_work import Parameters, Work
from treefold.operators.engine import folding
from treefold.operators.engine.folding import Compiled, can_fold, compiled, fold
from treefold.operators.operator import HALF_TYPES, Operator
from treefold.operators.plain_cells import gru_gates, gru_step
from treefold.operators.transforms import are_transforms_active, autocast_device, is_traced
from treefold.shapes import Float

FEW = 4096
"""Numbers of state, such as 64 rows of width 64, up to which `forward` has a shorter way."""


class BinaryGRU(Operator):
    """The operator a ⊕ b = ½ (GRU(a, b) + GRU(b, a)), with a learned identity.

    Commutative by construction; associativity is only encouraged, see
    `treefold.algebra.ASSOCIATIVITY`. Under autocast, and for bfloat16 or float16 inputs, the
    multiplications are done in half precision, states and gates in float32.
    """

    takes_half = True

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.cell = nn.GRUCell(channels, channels)
        self.identity = self.learned_identity()

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row."""
        if is_traced(a) or are_transforms_active():
            return self._combine_plainly(a, b)
        if self._are_few_and_final(a, b):
            return self._combine_few(a, b)
        rows = torch.stack([a, b], -2).flatten(0, -2)
        plan = TreePlan.of_pairs(rows.shape[0] // 2, rows.device)
        nodes = cast(Tensor, self.fold_tree(rows, plan).nodes)
        return nodes.clone().view(a.shape)  # not a part of what is kept for the gradient

    def _combine_plainly(self, a: Tensor, b: Tensor) -> Tensor:
        """In plain operations: one multiplication for each argument, for both of its places."""
        cell, state_type = self.cell, _state_type(a)
        weight = torch.cat([cell.weight_ih, cell.weight_hh]).to(_multiplication_type(a))
        bias = torch.cat([cell.bias_ih, cell.bias_hh]).to(weight.dtype)
        of_a, of_b = (F.linear(rows.to(weight.dtype), weight, bias) for rows in (a, b))
        first_a, second_a = of_a.to(state_type).chunk(2, -1)
        first_b, second_b = of_b.to(state_type).chunk(2, -1)
        from_a, from_b = a.to(state_type), b.to(state_type)
        made = gru_gates(first_a, second_b, from_b) + gru_gates(first_b, second_a, from_a)
        return (made / 2).to(a.dtype)

    def _are_few_and_final(self, a: Tensor, b: Tensor) -> bool:
        """True if no gradient will be needed and stacking the weights costs more than the rows."""
        return (
            0 < a.numel() <= FEW
            and a.shape == b.shape
            and a.shape[-1] == self.channels
            and a.dtype == b.dtype == self.cell.weight_ih.dtype
            and a.dtype not in HALF_TYPES
            and not (torch.is_grad_enabled() and self._has_gradient(a, b))
            and not torch.is_autocast_enabled(a.device.type)
        )

    def _has_gradient(self, *rows: Tensor) -> bool:
        return any(tensor.requires_grad for tensor in (*rows, *self.cell.parameters()))

    def _combine_few(self, a: Tensor, b: Tensor) -> Tensor:
        """Both argument orders in one call of torch's own cell: an eighth of the time for a row."""
        shape, cell = a.shape, self.cell
        if a.dim() != 2:
            a, b = a.reshape(-1, self.channels), b.reshape(-1, self.channels)
        made: Tensor = torch.gru_cell(
            torch.cat([a, b]),
            torch.cat([b, a]),
            cell.weight_ih,
            cell.weight_hh,
            cell.bias_ih,
            cell.bias_hh,
        )
        first, second = made.chunk(2)
        return torch.lerp(first, second, 0.5).view(shape)

    def fold_tree(self, x: Rows, plan: TreePlan) -> Fold:
        """Fold every group: the same as `fold_levels(self, x, plan)`, faster."""
        groups, nodes = self._fold(x, plan, shows_nodes=True)
        assert nodes is not None
        return Fold(groups, nodes)

    def reduce_tree(self, x: Rows, plan: TreePlan) -> Tensor:
        """The groups alone, whose nodes' memory is used again and again."""
        return self._fold(x, plan, shows_nodes=False)[0]

    def _fold(self, x: Rows, plan: TreePlan, shows_nodes: bool) -> tuple[Tensor, Tensor | None]:
        table, rows, is_permutation = x, None, True
        if isinstance(x, TableRows):
            table, rows, is_permutation = x.table, x.rows, x.is_permutation
        table = self._checked(table)
        parameters, state_type = self._parameters_of_fold(), _state_type(table)
        source = table.to(state_type)
        if any(parameter.dtype != state_type for parameter in parameters):
            parameters = Parameters(*(parameter.to(state_type) for parameter in parameters))

        def plain(x: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
            leaves = x if rows is None else TableRows(x, rows, is_permutation)
            fold = fold_levels(_PlainBinaryGRU(parameters[:4], parameters[4]), leaves, plan)
            return cast(Tensor, fold.groups), cast(Tensor, fold.nodes)

        groups: Tensor
        nodes: Tensor | None
        precision = _multiplication_type(table)
        if precision == state_type and can_fold(source, parameters):
            leaves = source if rows is None else TableRows(source, rows)
            groups, nodes = fold(BINARY_GRU, leaves, plan, parameters.identity, parameters[:4])
        elif are_transforms_active():
            groups, nodes = plain(source, *parameters)
        else:
            tensors = (source, *parameters)
            keeps = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
            loops = loops_for(source, precision)
            work = Work(
                plan,
                plan.leaves if rows is None else rows.index_select(0, plan.leaves).long(),
                row_shape=(prod(table.shape[1:-1]), self.channels),
                shared=len(table) < plan.num_rows,
                precision=precision,
                plain=plain,
                is_permutation=is_permutation,
                keeps=keeps,
                shows_nodes=shows_nodes,
                runs_per_chunk=loops.runs_per_chunk(keeps),
            )
            groups, nodes = fold_binary_gru(loops, work, *tensors)
        return groups.to(table.dtype), None if nodes is None else nodes.to(table.dtype)

    def _parameters_of_fold(self) -> Parameters:
        cell = self.cell
        sides = (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        return Parameters(*sides, self.identity)

    def _checked(self, rows: object) -> Tensor:
        if not isinstance(rows, Tensor):
            raise ValueError(
                f"rows are a {type(rows).__name__}; expected a tensor [n, ..., {self.channels}]"
            )
        if rows.dim() < 2 or rows.shape[-1] != self.channels or not rows.is_floating_point():
            raise ValueError(
                f"rows are {rows.dtype} of shape {tuple(rows.shape)}; "
                f"expected a tensor [n, ..., {self.channels}] of floating-point numbers"
            )
        return rows


@dataclass(frozen=True)
class _PlainBinaryGRU:
    """The same operator in torch's own cell, differentiable as often as one likes."""

    parameters: Sequence[Tensor]
    identity: Tensor

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return (gru_step(a, b, *self.parameters) + gru_step(b, a, *self.parameters)) / 2


def _num_saved(parameters: folding.Parameters) -> int | torch.SymInt:
    """Reset, update, new and hidden new, of both cells."""
    hidden_bias = parameters[3]
    assert hidden_bias is not None
    return 8 * (hidden_bias.shape[0] // 3)


def _combine(a: Tensor, b: Tensor, parameters: folding.Parameters, _: Sequence[float]) -> Tensor:
    cell = [cast(Tensor, each) for each in parameters]
    return (gru_step(a, b, *cell) + gru_step(b, a, *cell)) / 2


BINARY_GRU = compiled(Compiled("binary_gru", 4, _num_saved, _combine))


def _state_type(rows: Tensor) -> torch.dtype:
    return torch.float32 if rows.dtype in HALF_TYPES else rows.dtype


def _multiplication_type(rows: Tensor) -> torch.dtype:
    if rows.dtype != torch.float64 and torch.is_autocast_enabled(autocast_device(rows)):
        return torch.get_autocast_dtype(autocast_device(rows))
    return rows.dtype
