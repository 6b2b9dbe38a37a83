"""The fold over trees: one operator call per level, for all groups of a batch at once."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, cast

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, identity_like, map_state, require_no_owner, tensors_of
from treefold.fold.plan import TreePlan
from treefold.fold.rows import Rows, num_rows, take_rows

BinaryFunction: TypeAlias = Callable[[State, State], State]


class Fold(NamedTuple):
    """What a fold makes: the groups' results, and every node of their trees on the way."""

    groups: State
    """One row per group; empty groups are the identity."""
    nodes: State
    """One row per application of the operator, numbered as in `TreePlan.children`."""


class FoldsTrees(Protocol):
    """An operator that knows a faster way to do what `fold_levels` does."""

    def fold_tree(self, x: Rows, plan: TreePlan) -> Fold:
        """The same as `fold_levels(self, x, plan)`, to rounding."""
        ...


class ReducesTrees(Protocol):
    """An operator that is faster still where nobody asks for the nodes on the way."""

    def reduce_tree(self, x: Rows, plan: TreePlan) -> State:
        """The groups of `fold_levels(self, x, plan)`, to rounding."""
        ...


def tree_reduce(op: Monoid | BinaryFunction, x: Rows, plan: TreePlan) -> State:
    """Fold each group of consecutive rows of `x` with `op`; empty groups give the identity.

    `op` is a function, a module or an exact monoid; `x` is a tensor `[n, *feature]`, a tuple of
    tensors where the operator's states are tuples, or `TableRows` where rows repeat.
    """
    _require_rows(x, plan)
    # For every batch of a training, `isinstance` with a protocol is too slow.
    if hasattr(op, "reduce_tree"):
        return cast(ReducesTrees, op).reduce_tree(x, plan)
    return tree_fold(op, x, plan).groups


def tree_fold(op: Monoid | BinaryFunction, x: Rows, plan: TreePlan) -> Fold:
    """Fold as `tree_reduce` does, and give every node of the trees as well."""
    _require_rows(x, plan)
    if hasattr(op, "fold_tree"):
        return cast(FoldsTrees, op).fold_tree(x, plan)
    return fold_levels(op, x, plan)


def fold_levels(op: Monoid | BinaryFunction, x: Rows, plan: TreePlan) -> Fold:
    """The fold in plain operations, for any operator."""
    require_no_owner(op)
    leaves = take_rows(x, plan.leaves, is_permutation=True)
    nodes = fold_nodes(op, leaves, plan)
    return Fold(collect_groups(op, leaves, nodes, plan), nodes)


def fold_nodes(op: Monoid | BinaryFunction, leaves: State, plan: TreePlan) -> State:
    """Every node of the trees over `leaves`, which are already in the order of the plan."""
    if not plan.levels:  # modules get their (zero) gradients even if nothing meets
        return op(_first(leaves, 0), _first(leaves, 0))
    pool, made = leaves, []
    for level in plan.levels:
        take = level.take
        rows = _first(pool, level.num_rows) if take is None else take_rows(pool, take)
        pairs, waiting = _split(rows, [2 * level.num_pairs, level.num_waiting])
        left, right = _neighbours(pairs)
        made.append(op(left, right))
        if len(made) == 1:
            _require_closed(op, left, made[0])
        pool = _cat([made[-1], waiting]) if level.num_waiting else made[-1]
    return _cat(made)


def collect_groups(
    op: Monoid | BinaryFunction, leaves: State, nodes: State, plan: TreePlan
) -> State:
    """One row per group: its root, its only row, or the identity."""
    singles = map_state(lambda rows: rows[plan.num_rows - plan.num_singles :], leaves)
    roots = take_rows(nodes, plan.root_nodes)
    blank = map_state(lambda rows: rows.new_empty(plan.num_groups, *rows.shape[1:]), roots)
    if hasattr(op, "identity"):
        blank = identity_like(cast(Monoid, op), blank)
    elif plan.num_empty:
        raise ValueError(
            f"{plan.num_empty} of {plan.num_groups} groups are empty and {op!r} has no identity; "
            "give an operator with an `identity`, or leave empty groups out"
        )
    return map_state(
        lambda out, single, root: out.index_copy(
            0, plan.single_groups, single.to(out.dtype)
        ).index_copy(0, plan.root_groups, root),
        blank,
        singles,
        roots,
    )


def _require_rows(x: Rows, plan: TreePlan) -> None:
    if num_rows(x) != plan.num_rows:
        raise ValueError(f"there are {num_rows(x)} rows, but the plan is for {plan.num_rows}")


def _require_closed(op: Monoid | BinaryFunction, given: State, made: State) -> None:
    """Two elements give an element: refuse an operator whose results have other shapes."""
    had, has = ([tuple(part.shape) for part in tensors_of(state)] for state in (given, made))
    if had != has:
        given_as, made_as = (", ".join(map(str, shapes)) for shapes in (had, has))
        raise ValueError(
            f"{type(op).__name__} makes {made_as} from two stacks of {given_as}; expected the same "
            "shape again, so that its results can be combined further"
        )


def _first(state: State, count: int) -> State:
    return map_state(lambda rows: rows[:count] if rows.shape[0] != count else rows, state)


def _split(state: State, counts: list[int]) -> tuple[State, State]:
    parts = [rows.split(counts) for rows in tensors_of(state)]
    return _like(state, [part[0] for part in parts]), _like(state, [part[1] for part in parts])


def _neighbours(state: State) -> tuple[State, State]:
    parts = [
        rows.view(rows.shape[0] // 2, 2, *rows.shape[1:]).unbind(1) for rows in tensors_of(state)
    ]
    return _like(state, [part[0] for part in parts]), _like(state, [part[1] for part in parts])


def _like(state: State, tensors: list[Tensor]) -> State:
    remaining = iter(tensors)
    return map_state(lambda _: next(remaining), state)


def _cat(states: list[State]) -> State:
    return map_state(lambda *rows: torch.cat(rows) if len(rows) > 1 else rows[0], *states)
