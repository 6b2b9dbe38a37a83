"""A whole fold, plan and all, as one operation that torch.compile does not look into.

All lengths depend on the numbers of rows and groups alone, so one graph holds for any batch: what
has a length of its own in a plan, such as the nodes of its trees, is padded to the number of rows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from treefold.fold import Groups, StaticFold, StaticTrees, plan_of, require_small
from treefold.operators.engine.folding import CHUNK, Parameters, TreeFold
from treefold.operators.engine.operations import (
    _OPERATIONS,
    Operation,
    limit_threads,
    reset_threads,
    why_not,
)
from treefold.operators.operator import Operator
from treefold.operators.transforms import HALF_TYPES, are_transforms_active, precisions

MAX_LEVELS = 64


class OpaqueFold(NamedTuple):
    """The groups, and all states of the trees if they are wanted."""

    fold: StaticFold
    trees: StaticTrees


def fold_opaque(
    tree_fold: TreeFold,
    op: Operator,
    parameters: Parameters,
    settings: Sequence[float],
    x: Tensor,
    index: Tensor,
    order: Tensor | None,
    num_groups: int,
    max_size: int,
    keep_states: bool,
) -> OpaqueFold | None:
    """Fold row `order[i]` of `x` into group `index[i]`; None where compiled operations cannot.

    An exported program runs without them, so it is not to call them.
    """
    if not torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return None
    state_type, factor_type = precisions(x)
    identity = op.identity.to(state_type)
    if op.identity.dtype in HALF_TYPES:
        parameters = [None if each is None else each.to(state_type) for each in parameters]
    tensors = (x.to(state_type), identity, *parameters)
    if factor_type == torch.float16 or not _can_compute(tensors):
        return None
    made = opaque_fold(
        *tensors[:2],
        list(parameters),
        index,
        order,
        num_groups,
        max_size,
        tree_fold.name,
        list(settings),
        factor_type == torch.bfloat16,
        keep_states or (torch.is_grad_enabled() and any(map(_has_gradient, tensors))),
    )
    groups, states, _, _, levels, children, _ = made
    is_live = torch.arange(x.shape[0], device=x.device) < levels[:, 0].sum()
    fold = StaticFold(groups.to(x.dtype), states.to(x.dtype))
    return OpaqueFold(fold, StaticTrees(x.shape[0], children, is_live))


def _has_gradient(each: Tensor | None) -> bool:
    return each is not None and each.requires_grad


def _can_compute(tensors: Sequence[Tensor | None]) -> bool:
    types = {(each.dtype, each.device.type) for each in tensors if each is not None}
    if are_transforms_active() or len(types) > 1:
        return False
    return types <= {(torch.float32, "cpu"), (torch.float64, "cpu")} and _are_at_hand()


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _are_at_hand() -> bool:
    return why_not() is None


@torch.library.custom_op("treefold::opaque_fold", mutates_args=())
def opaque_fold(
    x: Tensor,
    identity: Tensor,
    parameters: Sequence[Tensor | None],
    index: Tensor,
    order: Tensor | None,
    num_groups: int,
    max_size: int,
    name: str,
    settings: Sequence[float],
    half: bool,
    saves: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Groups, states, what is saved for the gradient, and the plan: leaves, levels, children,
    places.
    """
    groups = Groups.from_index(index, num_groups)
    require_small(groups.max_size, max_size)
    plan = plan_of(groups, "balanced")
    leaves = groups.order.index_select(0, plan.leaves)
    leaves = leaves if order is None else order.index_select(0, leaves)
    threads = limit_threads(x.numel(), x.shape[-1])
    try:
        found, states, saved = _operation(name).call(
            *(x, identity, *parameters, leaves, *plan.tables, *settings),
            *(False, half, CHUNK, saves),
        )
    finally:
        reset_threads(threads)
    if not saves:
        states, saved = states.new_empty(0), saved.new_empty(0)
    else:
        states, saved = _whole(states, 2 * x.shape[0]), _whole(saved, x.shape[0])
        states[x.shape[0] + plan.num_applications :] = 0
    levels, children, places = plan.tables
    children = _padded(children, x.shape[0])
    return found, states, saved, leaves, _padded(levels, MAX_LEVELS), children, places.clone()


@opaque_fold.register_fake
def _(
    x: Tensor,
    identity: Tensor,
    parameters: Sequence[Tensor | None],
    index: Tensor,
    order: Tensor | None,
    num_groups: int,
    max_size: int,
    name: str,
    settings: Sequence[float],
    half: bool,
    saves: bool,
) -> Any:
    shapes = ((x.shape[0],), (MAX_LEVELS, 2), (x.shape[0], 2), (num_groups,))
    plan = [index.new_empty(shape, dtype=torch.int64) for shape in shapes]
    found, states, saved = _operation(name).empty(
        x, identity, *parameters, *plan, *settings, False, half, CHUNK, saves
    )
    return found, *((states, saved) if saves else (x.new_empty(0), x.new_empty(0))), *plan


@torch.library.custom_op("treefold::opaque_fold_backward", mutates_args=())
def opaque_fold_backward(
    grad_groups: Tensor | None,
    grad_states: Tensor | None,
    x: Tensor,
    identity: Tensor,
    parameters: Sequence[Tensor | None],
    made: Sequence[Tensor],
    name: str,
    settings: Sequence[float],
    half: bool,
) -> list[Tensor]:
    """The gradients by `x`, the identity and each parameter: empty ones by what is None."""
    states, saved, leaves, levels, children, places = made
    levels = levels[levels[:, 0] > 0]
    num_nodes = int(levels[:, 0].sum())
    num_states = x.shape[0] + num_nodes
    if grad_states is not None:
        grad_states = grad_states[:num_states].contiguous()
    threads = limit_threads(x.numel(), x.shape[-1])
    try:
        found = _operation(name).backward(
            *(grad_groups, grad_states, x, identity, *parameters),
            *(leaves, levels, children[:num_nodes], places),
            *(states[:num_states], saved[:num_nodes], *settings, False, half, CHUNK),
        )
    finally:
        reset_threads(threads)
    return list(found)


@opaque_fold_backward.register_fake
def _(
    grad_groups: Any, grad_states: Any, x: Tensor, identity: Tensor, parameters: Any, *_: Any
) -> Any:
    empty = [x.new_empty(0) if each is None else torch.empty_like(each) for each in parameters]
    return [torch.empty_like(x), torch.empty_like(identity), *empty]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, identity, parameters, _, _, _, _, *ctx.settings, _ = inputs
    ctx.save_for_backward(x, identity, *output[1:], *parameters)
    ctx.set_materialize_grads(False)


def _differentiate(
    ctx: Any, grad_groups: Tensor | None, grad_states: Tensor | None, *_: Any
) -> tuple[Any, ...]:
    x, identity, *rest = ctx.saved_tensors
    made, parameters = rest[:6], rest[6:]
    of_x, of_identity, *of_parameters = opaque_fold_backward(
        grad_groups, grad_states, x, identity, parameters, made, *ctx.settings
    )
    pairs = zip(parameters, of_parameters, strict=True)
    grads = [None if each is None else grad for each, grad in pairs]
    # torch takes an empty list of settings for one of tensors.
    of_settings: list[Tensor] | None = None if ctx.settings[1] else []
    return of_x, of_identity, grads, *(None,) * 5, of_settings, None, None


opaque_fold.register_autograd(_differentiate, setup_context=_remember)


def _operation(name: str) -> Operation:
    return next(each for each in _OPERATIONS if each.name == name)


def _whole(rows: Tensor, count: int) -> Tensor:
    """As many rows as `count`, for which there is memory behind those that are there."""
    return rows.as_strided((count, *rows.shape[1:]), rows.stride())


def _padded(rows: Tensor, count: int) -> Tensor:
    """As many rows as `count`, zeros at the end."""
    return nn.functional.pad(rows, (*(0, 0) * (rows.dim() - 1), 0, count - rows.shape[0]))
