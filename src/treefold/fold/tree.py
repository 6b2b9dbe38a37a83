"""The fold over trees: one operator call per level, for all groups of a batch at once."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, cast

import torch
from torch import Tensor

from treefold.algebra import Monoid, State, identity_like, map_state, require_no_owner, tensors_of
from treefold.fold.plan import Level, TreePlan
from treefold.fold.rows import Rows, TableRows, num_rows, take_rows

BinaryFunction: TypeAlias = Callable[[State, State], State]


class Fold(NamedTuple):
    """The result of a fold: one row per group, and every node of their trees on the way."""

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
    # For every batch of a training, `isinstance` with a protocol is too slow.
    if (x.rows.shape[0] if isinstance(x, TableRows) else num_rows(x)) != plan.num_rows:
        _require_rows(x, plan)
    if hasattr(op, "reduce_tree"):
        return cast(ReducesTrees, op).reduce_tree(x, plan)
    if hasattr(op, "fold_tree"):
        return cast(FoldsTrees, op).fold_tree(x, plan).groups
    return fold_levels(op, x, plan).groups


def tree_fold(op: Monoid | BinaryFunction, x: Rows, plan: TreePlan) -> Fold:
    """Fold as `tree_reduce` does, and return every node of the trees as well."""
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
        return op(*_meeting(leaves, Level(0, 0, None))[:2])
    pool, made = leaves, []
    for level in plan.levels:
        rows = pool if level.take is None else take_rows(pool, level.take)
        left, right, waiting = _meeting(rows, level)
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

    def collected(out: Tensor, single: Tensor, root: Tensor) -> Tensor:
        out = out.index_copy(0, plan.single_groups, single.to(out.dtype))
        return out.index_copy(0, plan.root_groups, root)

    return map_state(collected, blank, singles, roots)


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
            "shape again, because results are combined further"
        )


def _meeting(state: State, level: Level) -> tuple[State, State, State]:
    """The left and the right rows of a level's pairs, and the rows that wait."""
    if isinstance(state, tuple):
        columns = zip(*(_meeting(part, level) for part in state), strict=True)
        left, right, waiting = columns
        return left, right, waiting
    count = 2 * level.num_pairs
    used = count + level.num_waiting
    # What is behind are roots of groups. Gradients of parts of a split come back in one piece.
    pairs, waiting, _ = state.split([count, level.num_waiting, state.shape[0] - used])
    left, right = pairs.view(level.num_pairs, 2, *state.shape[1:]).unbind(1)
    return left, right, waiting


def _cat(states: list[State]) -> State:
    return map_state(lambda *rows: torch.cat(rows) if len(rows) > 1 else rows[0], *states)
