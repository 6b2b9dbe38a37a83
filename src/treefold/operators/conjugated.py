"""An exact monoid seen through a learned bijection: every law holds by construction."""

from dataclasses import replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from treefold.algebra import Max, Min, Monoid, State, Sum, identity_like
from treefold.fold import (
    Fold,
    Rows,
    StaticPlan,
    TableRows,
    TreePlan,
    collect_groups,
    fold_nodes,
    fold_static,
    take_rows,
)
from treefold.operators.bijection import CouplingFlow
from treefold.operators.operator import Operator
from treefold.operators.transforms import HALF_TYPES, autocast_device
from treefold.shapes import Float

ROUNDINGS = 16
"""The largest distance of encodings of one row, in roundings of their largest number."""


class Bijection(Protocol):
    """A module that knows its inverse."""

    def __call__(self, x: Tensor) -> Tensor:
        """There."""
        ...

    def inverse(self, y: Tensor) -> Tensor:
        """And back."""
        ...


class Conjugated(Operator):
    """The operator a ⊕ b = φ⁻¹(φ(a) ∗ φ(b)) for an exact monoid (∗, e); empty groups give φ⁻¹(e).

    Associative and commutative by construction, to rounding, which φ⁻¹ magnifies where it is steep:
    the paper's strong enforcement, which it suspects of costing expressivity. `monoid` acts on
    plain tensors, and its identity must be finite, because empty groups return it through φ⁻¹.

    For maxima and minima, e is that answer and no more, and bounds no row: give
    `Max(bottom=...)`. Where one argument (in a fold, one element) has all the largest encodings, it
    is returned itself, bit for bit: a ⊕ a = a. Layers in φ compute in full precision, under
    autocast too, or φ⁻¹ would not be its inverse.
    """

    def __init__(self, monoid: Monoid, bijection: nn.Module, channels: int) -> None:
        super().__init__(channels)
        if not isinstance(monoid.identity, Tensor) or not monoid.identity.isfinite().all():
            raise ValueError(
                f"the identity of {monoid!r} is {monoid.identity!r}; expected a finite tensor, "
                "because empty groups give it through the bijection (for maxima use "
                "Max(bottom=-4.0), which bounds no row)"
            )
        self.monoid = monoid
        self._selecting = _Selecting(monoid)
        self.bijection = bijection

    @classmethod
    def sum(cls, channels: int, num_layers: int = 4) -> "Conjugated":
        """Addition through a coupling flow."""
        return cls(Sum(), CouplingFlow(channels, num_layers), channels)

    @classmethod
    def max(cls, channels: int, num_layers: int = 4, bottom: float = -4.0) -> "Conjugated":
        """Maxima through a coupling flow; an empty group gives what encodes to `bottom`."""
        return cls(Max(bottom=bottom), CouplingFlow(channels, num_layers), channels)

    @property
    def identity(self) -> Tensor:  # type: ignore[override]
        """φ⁻¹(e): what an empty group gives."""
        like = next(self.bijection.parameters(), torch.zeros(()))
        row = identity_like(self.monoid, like.new_empty(1, self.channels))
        return self._decode(cast(Tensor, row)).squeeze(0)

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row."""
        of_a, of_b = self._encode(a), self._encode(b)
        both = self._combine(of_a, of_b)
        made = self._decode(both)
        if not self._selects:
            return made
        is_a, is_b = _all_equal(both, of_a), _all_equal(both, of_b)
        # Where all encodings are equal, so are a and b, but for rounding: neither is preferred.
        one = torch.where(is_a, torch.where(is_b, torch.maximum(a, b), a), b)
        return torch.where(is_a | is_b, one.to(made.dtype), made)

    def fold_tree(self, x: Rows, plan: TreePlan) -> Fold:
        """Encode each row once, fold there, decode: no bijection at the levels between."""
        leaves, inside = self._inside(x, plan)
        nodes = self._outside(leaves, inside)
        return Fold(collect_groups(self, leaves, nodes, plan), nodes)

    def reduce_tree(self, x: Rows, plan: TreePlan) -> Tensor:
        """The groups of `fold_tree`: of all nodes, roots alone are decoded."""
        leaves, inside = self._inside(x, plan)
        roots = self._outside(leaves, take_rows(inside, plan.root_nodes))
        numbers = torch.arange(len(roots), device=roots.device)
        return cast(Tensor, collect_groups(self, leaves, roots, replace(plan, root_nodes=numbers)))

    def _inside(self, x: Rows, plan: TreePlan) -> tuple[Tensor, State]:
        """Leaves, and nodes as encodings; where those select, each with the leaf that it is."""
        encoded: Rows
        if isinstance(x, TableRows):
            encoded = replace(x, table=self._encode(x.table))
        else:
            encoded = self._encode(cast(Tensor, x))
        inside, leaves = (
            cast(Tensor, take_rows(each, plan.leaves, is_permutation=True)) for each in (encoded, x)
        )
        if not self._selects:
            return leaves, fold_nodes(self.monoid, inside, plan)
        places = torch.arange(len(leaves), device=leaves.device)
        places = places.view(-1, *[1] * (leaves.dim() - 1)).expand(*leaves.shape[:-1], 1)
        return leaves, fold_nodes(self._selecting, (inside, places), plan)

    def _outside(self, leaves: Tensor, inside: State) -> Tensor:
        """Nodes decoded; those whose encoding is that of one leaf are this leaf."""
        if not self._selects:
            return self._decode(cast(Tensor, inside))
        both, leaf = cast(tuple[Tensor, Tensor], inside)
        made = self._decode(both)
        if not len(leaves):
            return made
        one = torch.take_along_dim(leaves, leaf.clamp(min=0), 0)
        return torch.where(leaf >= 0, one.to(made.dtype), made)

    def reduce_static(self, x: Tensor, plan: StaticPlan) -> Tensor:
        """The same over a static plan."""
        encoded = self._encode(x)
        if not self._selects:
            return self._decode(cast(Tensor, fold_static(self.monoid, encoded, plan).groups))
        places = torch.arange(x.shape[0], device=x.device)
        places = places.view(-1, *[1] * (x.dim() - 1)).expand(*x.shape[:-1], 1)
        found = fold_static(self._selecting, (encoded, places), plan).groups
        both, leaf = cast(tuple[Tensor, Tensor], found)
        made = self._decode(both)
        # `take_along_dim` would fix the number of rows in torch.export.
        one = x.gather(0, leaf.clamp(min=0).expand(*made.shape))
        # The limit of `made` on large groups holds for leaves as well.
        leaf = leaf.masked_fill(both.isnan().any(-1, keepdim=True), -1)
        return torch.where(leaf >= 0, one.to(made.dtype), made)

    @property
    def _selects(self) -> bool:
        """Each number of the result is one of the two given."""
        return isinstance(self.monoid, Max | Min)

    def _combine(self, a: Tensor, b: Tensor) -> Tensor:
        return cast(Tensor, self.monoid(a, b))

    def _encode(self, x: Tensor) -> Tensor:
        with torch.autocast(autocast_device(x), enabled=False):
            return cast(Bijection, self.bijection)(self._precise(x))

    def _decode(self, y: Tensor) -> Tensor:
        with torch.autocast(autocast_device(y), enabled=False):
            return cast(Bijection, self.bijection).inverse(self._precise(y))

    def _precise(self, rows: Tensor) -> Tensor:
        """Rows in the type of the parameters where autocast let a narrower one pass."""
        parameter = next(self.bijection.parameters(), rows)
        return rows.to(parameter.dtype) if rows.dtype in HALF_TYPES else rows


class _Selecting:
    """Merges encodings, each with the place of the one leaf that it is, or -1."""

    def __init__(self, monoid: Monoid) -> None:
        self.monoid = monoid

    @property
    def identity(self) -> tuple[State, Tensor]:
        return self.monoid.identity, torch.tensor(-1)

    def __call__(self, a: Any, b: Any) -> tuple[Tensor, Tensor]:
        (of_a, leaf_a), (of_b, leaf_b) = a, b
        both = cast(Tensor, self.monoid(of_a, of_b))
        leaf = torch.where(_all_equal(both, of_b), leaf_b, -1)
        return both, torch.where(_all_equal(both, of_a), leaf_a, leaf)


def _all_equal(a: Tensor, b: Tensor) -> Tensor:
    """Rows that are equal, but for rounding: a product of matrices rounds by the place of a row."""
    size = torch.maximum(a.abs(), b.abs()).amax(-1, keepdim=True)
    close = (a - b).abs() <= ROUNDINGS * torch.finfo(a.dtype).eps * size
    return (close | (a == b)).all(-1, keepdim=True)
