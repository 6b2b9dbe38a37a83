"""Folds by compiled operations: who may use them, and their gradients and transforms."""

import logging
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from treefold.fold import Rows, TableRows, TreePlan
from treefold.operators.engine.building import CannotBuild, capability, library
from treefold.operators.second_order import differentiable_gradients
from treefold.operators.transforms import are_transforms_active

_log = logging.getLogger("treefold")

CHUNK = 1 << 14
"""Numbers of state that a thread makes at once; what it needs for them fits its core's cache."""

Parameters: TypeAlias = Sequence[Tensor | None]
NUM_PLAN = 4
"""Tensors of a plan: leaves, levels, children, places."""


class Compiled(NamedTuple):
    """The operation `treefold::name`, and what stands for it where it cannot be used.

    Its arguments are the rows, a plan's tensors, the identity, `num_parameters` parameters,
    settings, and three more: whether rows repeat, whether to save what a gradient needs, and the
    size of a chunk.
    """

    name: str
    num_parameters: int
    saved: Callable[[Parameters], int | torch.SymInt]
    """How many numbers per pair are saved for the gradient."""
    combine: Callable[[Tensor, Tensor, Parameters, Sequence[Any]], Tensor]
    """a ⊕ b in plain operations, from parameters and settings."""

    @property
    def call(self) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
        """The operation: groups, states and what is saved."""
        return getattr(torch.ops.treefold, self.name)  # type: ignore[no-any-return]

    @property
    def call_backward(self) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
        """Its gradients: of rows, identity and all parameters."""
        return getattr(torch.ops.treefold, f"{self.name}_backward")  # type: ignore[no-any-return]


_COMPILED: list[Compiled] = []


def compiled(operation: Compiled) -> Compiled:
    """Remember an operation; it is registered once the library is loaded."""
    _COMPILED.append(operation)
    return operation


@cache
def why_not() -> str | None:
    """None if the operations are there; they are loaded, and compiled at the first use of all."""
    if os.environ.get("TREEFOLD_ENGINE") == "torch":
        return "TREEFOLD_ENGINE is torch"
    try:
        torch.ops.load_library(library())
        for operation in _COMPILED:
            _register(operation)
    except (CannotBuild, OSError) as error:
        reason = "; ".join(str(each) for each in (error, error.__cause__) if each)
        _log.warning("treefold: folds run in plain torch: %s", reason)
        return reason
    _log.info("folds run compiled for %s", capability())
    return None


def release_memory() -> None:
    """Give the memory that compiled folds keep, and nobody uses, back to the system."""
    if why_not.cache_info().currsize and why_not() is None:
        torch.ops.treefold.release()


def can_fold(rows: Tensor, parameters: Parameters) -> bool:
    """Whether compiled operations take such rows and parameters."""
    if torch.compiler.is_compiling() or are_transforms_active():
        return False
    given = [rows, *(each for each in parameters if each is not None)]
    return (
        rows.dtype in (torch.float32, torch.float64)
        and rows.dim() >= 2
        and all(
            type(each) in (Tensor, nn.Parameter) and each.is_cpu and each.dtype == rows.dtype
            for each in given
        )
        and not torch.is_autocast_enabled("cpu")
        and getattr(forward_ad, "_current_level", -1) < 0  # no derivative is carried forward
        and why_not() is None
    )


def fold(
    operation: Compiled,
    x: Rows,
    plan: TreePlan,
    identity: Tensor,
    parameters: Parameters,
    *settings: float,
) -> tuple[Tensor, Tensor]:
    """The groups, and all nodes."""
    if isinstance(x, TableRows):
        table, leaves = x.table, x.rows.index_select(0, plan.leaves).long()
    else:
        assert isinstance(x, Tensor)
        table, leaves = x, plan.leaves
    saves = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in (table, identity, *parameters)
    )
    groups, states, _ = operation.call(
        *(table, leaves, *plan.tables, identity),
        *(*parameters, *settings, len(table) < plan.num_rows, saves, CHUNK),
    )
    return groups, states[plan.num_rows :]


def _register(operation: Compiled) -> None:
    name = f"treefold::{operation.name}"
    torch.library.register_fake(name, _fake(operation))
    torch.library.register_fake(f"{name}_backward", _fake_backward(operation))
    torch.library.register_autograd(
        name, _backward(operation), setup_context=_set_up_context(operation)
    )
    torch.library.register_vmap(name, _over_inner(operation))
    torch.library.register_vmap(f"{name}_backward", _one_by_one(lambda: operation.call_backward))


def _fake(operation: Compiled) -> Callable[..., tuple[Tensor, ...]]:
    def fake(x: Tensor, *others: Any) -> tuple[Tensor, ...]:
        leaves, _, children, places = others[:NUM_PLAN]
        parameters = others[NUM_PLAN + 1 :][: operation.num_parameters]
        num_nodes, saves = children.shape[0], others[-2]
        return (
            x.new_empty(places.shape[0], *x.shape[1:]),
            x.new_empty(leaves.shape[0] + num_nodes, *x.shape[1:]),
            x.new_empty(num_nodes if saves else 0, *x.shape[1:-1], operation.saved(parameters)),
        )

    return fake


def _fake_backward(operation: Compiled) -> Callable[..., tuple[Tensor, ...]]:
    def fake(
        grad_groups: Tensor | None, grad_states: Tensor | None, x: Tensor, *others: Any
    ) -> tuple[Tensor, ...]:
        parameters = others[NUM_PLAN:][: operation.num_parameters]
        count = sum(each.numel() for each in parameters if each is not None)
        return x.new_empty(x.shape), x.new_empty(x.shape[-1]), x.new_empty(count)

    return fake


def _set_up_context(operation: Compiled) -> Callable[..., None]:
    def set_up(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        end = NUM_PLAN + 2 + operation.num_parameters
        _, states, saved = output
        ctx.save_for_backward(*inputs[:end], states, saved)
        ctx.settings = inputs[end:]
        ctx.mark_non_differentiable(saved)
        ctx.set_materialize_grads(False)

    return set_up


def _backward(operation: Compiled) -> Callable[..., tuple[Tensor | None, ...]]:
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, *plan, identity = ctx.saved_tensors[: NUM_PLAN + 2]
        *parameters, states, saved = ctx.saved_tensors[NUM_PLAN + 2 :]
        *settings, shared, _, chunk = ctx.settings
        of_settings = (None,) * len(ctx.settings)
        if torch.is_grad_enabled():  # to be differentiated again: through plain operations
            outputs = _plain(operation, x, plan, identity, parameters, settings)
            inputs = [each for each in (x, identity, *parameters) if each is not None]
            found = iter(differentiable_gradients(outputs, inputs, grads[:2]))
            given = [None if each is None else next(found) for each in (x, identity, *parameters)]
            return (given[0], *(None,) * NUM_PLAN, *given[1:], *of_settings)
        grad_x, grad_identity, flat = operation.call_backward(
            *(*grads[:2], x, *plan, *parameters, states, saved, *settings, shared, chunk)
        )
        parts = iter(flat.split([each.numel() for each in parameters if each is not None]))
        of_parameters = [
            None if each is None else next(parts).view(each.shape) for each in parameters
        ]
        return (grad_x, *(None,) * NUM_PLAN, grad_identity, *of_parameters, *of_settings)

    return backward


def _plain(
    operation: Compiled,
    x: Tensor,
    plan: Sequence[Tensor],
    identity: Tensor,
    parameters: Parameters,
    settings: Sequence[Any],
) -> list[Tensor]:
    """Groups and states in plain operations, from a plan's tensors."""
    leaves, levels, children, places = plan
    states = x.index_select(0, leaves)
    made = 0
    for count in levels[:, 0].tolist():
        pairs = children[made : made + count]
        a, b = (states.index_select(0, pairs[:, side]) for side in (0, 1))
        states = torch.cat([states, operation.combine(a, b, parameters, settings)])
        made += count
    blank = identity.expand(1, *x.shape[1:])
    groups = torch.cat([blank, states]).index_select(0, places + 1)
    return [groups, states]


def _over_inner(operation: Compiled) -> Callable[..., Any]:
    """Rows that are batched alone get an inner axis more."""

    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        if in_dims[0] is None or any(dim is not None for dim in in_dims[1:]):
            return _one_by_one(lambda: operation.call)(info, in_dims, *args)
        return operation.call(args[0].movedim(in_dims[0], 1), *args[1:]), (1, 1, 1)

    return vmap


def _one_by_one(call: Callable[[], Callable[..., tuple[Tensor, ...]]]) -> Callable[..., Any]:
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        results = [
            call()(
                *(
                    arg if dim is None else arg.select(dim, i)
                    for arg, dim in zip(args, in_dims, strict=True)
                )
            )
            for i in range(info.batch_size)
        ]
        return tuple(torch.stack(parts) for parts in zip(*results, strict=True)), (0, 0, 0)

    return vmap
