"""Trees as nested tuples, and folds done by hand: what the fast paths are held against."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor, nn

from treefold.fold import TreePlan, planning, tree_reduce
from treefold.fold.reference import fold_balanced, fold_carry

BRACKETINGS = list(planning.BRACKETINGS)
REPEATABLE = list(planning.REPEATABLE)
SIZES = st.lists(st.integers(0, 40), max_size=8)
some = settings(deadline=None, max_examples=60)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=dtype)


def trees_of(plan: TreePlan) -> list[Any]:
    """The trees of a plan: per group a row number, a tuple of two trees, or None."""
    made: list[Any] = plan.leaves.tolist()
    for left, right in plan.children.tolist():
        made.append((made[left], made[right]))
    trees: list[Any] = [None] * plan.num_groups
    singles = made[plan.num_rows - plan.num_singles : plan.num_rows]
    for group, leaf in zip(plan.single_groups.tolist(), singles, strict=True):
        trees[group] = leaf
    for group, node in zip(plan.root_groups.tolist(), plan.root_nodes.tolist(), strict=True):
        trees[group] = made[plan.num_rows + node]
    return trees


def reference_trees(fold: Callable[..., Any], sizes: Sequence[int]) -> list[Any]:
    """The trees of a reference fold over consecutive rows, in the form of `trees_of`."""
    starts = [sum(sizes[:group]) for group in range(len(sizes))]
    return [
        fold(lambda a, b: (a, b), range(start, start + size)) if size else None
        for start, size in zip(starts, sizes, strict=True)
    ]


def depths(tree: Any, depth: int = 0) -> list[int]:
    """The depth of every leaf, from left to right."""
    if isinstance(tree, tuple):
        return [found for part in tree for found in depths(part, depth + 1)]
    return [depth]


def leaves_of(tree: Any) -> list[int]:
    """All leaves, from left to right; an empty group has none."""
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in leaves_of(part)]
    return [] if tree is None else [tree]


def scramble(a: Any, b: Any) -> Any:
    """Neither associative nor commutative: the outcome tells which tree was folded."""
    return (3 * a * a + 5 * b + 7) % 1_000_003


def fold_along(tree: Any, op: Callable[..., Any], rows: Sequence[Any]) -> Any:
    """Fold `rows` in the order in which `tree` brackets them."""
    if isinstance(tree, tuple):
        return op(*(fold_along(part, op, rows) for part in tree))
    return rows[tree]


def reference_reduce(
    op: Any, x: Tensor, sizes: list[int], bracketing: str, plan: TreePlan
) -> Tensor:
    """Each group by itself, by the reference recursion; random trees as the plan has drawn them."""
    out = []
    for tree, rows in zip(trees_of(plan), x.split(sizes), strict=True):
        fold = {"balanced": fold_balanced, "carry": fold_carry}.get(
            bracketing, partial(fold_along, _from_zero(tree))
        )
        empty = op.identity.expand(1, *x.shape[1:]) if len(rows) == 0 else None
        out.append(fold(op, rows.split(1)) if empty is None else empty)
    return torch.cat(out)


def _from_zero(tree: Any) -> Any:
    first = min(leaves_of(tree), default=0)

    def moved(part: Any) -> Any:
        return tuple(map(moved, part)) if isinstance(part, tuple) else part and part - first

    return moved(tree)


def weighted(*outputs: Tensor) -> Tensor:
    """One number that depends on every entry of the outputs, each with a weight of its own."""
    return sum(
        (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum()
        for out in outputs
    )


class Folding(nn.Module):
    """A fold as a module, for what wants a forward: torch.func, pickling."""

    def __init__(self, op: nn.Module) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: Any, plan: TreePlan) -> Tensor:
        return tree_reduce(self.op, x, plan)
