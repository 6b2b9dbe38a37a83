"""Binary-GRU: a GRU cell made commutative by averaging both argument orders."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from treefold.fold import Fold, Rows, TreePlan
from treefold.operators.engine.folding import Parameters, TreeFold
from treefold.operators.engine.opaque import OpaqueFold, fold_opaque
from treefold.operators.operator import Operator
from treefold.operators.plain_cells import gru_gates
from treefold.operators.transforms import HALF_TYPES, are_transforms_active, is_traced
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
        if self._are_few_and_final(a, b):
            return self._combine_few(a, b)
        return _FOLD.combined(self, a, b, self._parameters_of_fold())

    def fold_tree(self, x: Rows, plan: TreePlan) -> Fold:
        """Fold every group: the same as `fold_levels(self, x, plan)`, faster."""
        return _FOLD.fold(self, x, plan, self._parameters_of_fold())

    def fold_opaque(self, *given: Any) -> OpaqueFold | None:
        """Fold every group in one operation under torch.compile; None where that cannot be."""
        return fold_opaque(_FOLD, self, self._parameters_of_fold(), (), *given)

    def _parameters_of_fold(self) -> Parameters:
        cell = self.cell
        return (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)

    def _are_few_and_final(self, a: Tensor, b: Tensor) -> bool:
        """True if no gradient will be needed and calls cost more than the rows."""
        return (
            not (is_traced(a) or are_transforms_active())
            and 0 < a.numel() <= FEW
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
        shape = a.shape
        if a.dim() != 2:
            a, b = a.reshape(-1, self.channels), b.reshape(-1, self.channels)
        cell = self.cell
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


def _combine(
    a: Tensor, b: Tensor, parameters: Parameters, factor_type: torch.dtype, _: Sequence[float]
) -> Tensor:
    """In plain operations: one multiplication for each argument, for both of its places."""
    weight_ih, weight_hh, bias_ih, bias_hh = (cast(Tensor, each) for each in parameters)
    weight = torch.cat([weight_ih, weight_hh]).to(factor_type)
    bias = torch.cat([bias_ih, bias_hh]).to(factor_type)
    of_a, of_b = (F.linear(x.to(factor_type), weight, bias).to(x.dtype) for x in (a, b))
    (first_a, second_a), (first_b, second_b) = of_a.chunk(2, -1), of_b.chunk(2, -1)
    return (gru_gates(first_a, second_b, b) + gru_gates(first_b, second_a, a)) / 2


def _num_saved(parameters: Parameters) -> int | torch.SymInt:
    """Reset, update, new and hidden new, of both cells."""
    hidden_bias = cast(Tensor, parameters[3])
    return 8 * (hidden_bias.shape[0] // 3)


_FOLD = TreeFold("binary_gru", 4, _num_saved, _combine)
