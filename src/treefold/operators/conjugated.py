"""An exact monoid seen through a learned bijection: every law holds by construction."""

from dataclasses import replace
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from treefold.algebra import Max, Monoid, Sum
from treefold.operators.bijection import CouplingFlow
from treefold.operators.operator import Operator
from treefold.reduction import (
    Fold,
    Rows,
    TableRows,
    TreePlan,
    collect_groups,
    fold_nodes,
    take_rows,
)
from treefold.shapes import Float


class Bijection(Protocol):
    """A module that knows its inverse."""

    def __call__(self, x: Tensor) -> Tensor:
        """There."""
        ...

    def inverse(self, y: Tensor) -> Tensor:
        """And back."""
        ...


class Conjugated(Operator):
    """The operator a ⊕ b = φ⁻¹(φ(a) ∗ φ(b)), with identity φ⁻¹(e), for an exact monoid (∗, e).

    Associative and commutative by construction, to rounding: the paper's strong enforcement, which
    it suspects of costing expressivity. `monoid` acts on plain tensors and its identity must be
    finite, so for maxima give `Max(bottom=...)`: φ(a) is raised to `bottom` where it lies lower.
    """

    def __init__(self, monoid: Monoid, bijection: nn.Module, channels: int) -> None:
        super().__init__(channels)
        if not isinstance(monoid.identity, Tensor) or not monoid.identity.isfinite().all():
            raise ValueError(
                f"the identity of {monoid!r} is {monoid.identity!r}; expected a finite tensor, "
                "because a network cannot carry infinity (for maxima use Max(bottom=-4.0))"
            )
        self.monoid = monoid
        self.bijection = bijection

    @classmethod
    def sum(cls, channels: int, num_layers: int = 4) -> "Conjugated":
        """Addition through a coupling flow."""
        return cls(Sum(), CouplingFlow(channels, num_layers), channels)

    @classmethod
    def max(cls, channels: int, num_layers: int = 4, bottom: float = -4.0) -> "Conjugated":
        """Maxima of numbers from `bottom` up, through a coupling flow."""
        return cls(Max(bottom=bottom), CouplingFlow(channels, num_layers), channels)

    @property
    def identity(self) -> Tensor:  # type: ignore[override]
        """φ⁻¹(e)."""
        bottom = cast(Tensor, self.monoid.identity)
        like = next(self.bijection.parameters(), torch.zeros(()))
        return self._decode(bottom.to(like).expand(self.channels))

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row."""
        return self._decode(self._combine(self._encode(a), self._encode(b)))

    def fold_tree(self, x: Rows, plan: TreePlan) -> Fold:
        """Encode each row once, fold there, decode: no bijection at the levels between."""
        encoded: Rows
        if isinstance(x, TableRows):
            encoded = replace(x, table=self._encode(x.table))
        else:
            encoded = self._encode(cast(Tensor, x))
        inside, leaves = (
            take_rows(each, plan.leaves, is_permutation=True) for each in (encoded, x)
        )
        nodes = self._decode(cast(Tensor, fold_nodes(self.monoid, inside, plan)))
        return Fold(collect_groups(self, leaves, nodes, plan), nodes)

    def _combine(self, a: Tensor, b: Tensor) -> Tensor:
        return cast(Tensor, self.monoid(a, b))

    def _encode(self, x: Tensor) -> Tensor:
        y = cast(Bijection, self.bijection)(x)
        return self._combine(y, cast(Tensor, self.monoid.identity).to(y))

    def _decode(self, y: Tensor) -> Tensor:
        return cast(Bijection, self.bijection).inverse(y)
