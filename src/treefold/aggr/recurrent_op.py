"""A recurrent cell along ragged groups, as one operation that torch.compile does not look into.

A chain is as deep as the largest group is long, so it cannot be unrolled. Outside it is an operator
of torch with a fake kernel; inside it is what `RecurrentAggregation` does without torch.compile.
Its gradient runs the chain again. For ONNX it is a GRU or LSTM over padded groups.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from treefold.aggr.recurrent_onnx import onnx_chain
from treefold.aggr.sampling import Sampling
from treefold.aggr.static import StaticGroups
from treefold.aggr.swap_loss import swap_loss
from treefold.fold import Groups, PackedOrder, chain_fold
from treefold.operators import (
    CELLS,
    RecurrentCell,
    RecurrentGRU,
    RecurrentLSTM,
    are_transforms_active,
    is_traced,
)

_KINDS: dict[type[RecurrentCell], str] = {RecurrentGRU: "gru", RecurrentLSTM: "lstm"}


@dataclass(frozen=True)
class OpaqueChain:
    """Settings of a run: the number of orders, and the swap loss or none."""

    permutations: int
    shuffle: bool
    swaps: bool
    num_nodes: int
    """At how many places to take the swap loss; 0 for all."""
    reduction: str


def run_opaque(
    cell: RecurrentCell, x: Tensor, groups: StaticGroups, how: OpaqueChain
) -> tuple[Tensor, Tensor]:
    """The output of each group's last state, and the swap loss (zero if it is not wanted)."""
    kind = _KINDS.get(type(cell))
    if kind is None:
        raise ValueError(
            f"torch.compile and torch.export cannot see through the cell {type(cell).__name__}; "
            "use 'gru' or 'lstm', or exclude the aggregator by torch.compiler.disable"
        )
    if not is_traced(x) and are_transforms_active():
        raise ValueError(
            "a recurrent aggregator inside static_plans cannot be transformed by torch.func; leave "
            "static_plans out, or use a learned monoid such as 'binary-gru'"
        )
    parameters = list(cell.at_hand)
    rows = x.to(parameters[0].dtype)
    if torch.onnx.is_in_onnx_export():
        return onnx_chain(kind, cell, rows, groups, how.permutations), rows.new_zeros(())
    seed = (
        torch.randint(0, 1 << 30, (1,)) if how.shuffle or how.num_nodes else torch.zeros(1).long()
    )
    out, loss = recurrent_chain(
        rows,
        groups.index,
        parameters,
        seed,
        kind,
        groups.num_groups,
        how.permutations,
        how.shuffle,
        how.swaps,
        how.num_nodes,
        how.reduction,
    )
    return out, loss


@torch.library.custom_op("treefold::recurrent_chain", mutates_args=())
def recurrent_chain(
    x: Tensor,
    index: Tensor,
    parameters: Sequence[Tensor],
    seed: Tensor,
    kind: str,
    num_groups: int,
    permutations: int,
    shuffle: bool,
    swaps: bool,
    num_nodes: int,
    reduction: str,
) -> tuple[Tensor, Tensor]:
    """The output of each group's last state, and the swap loss."""
    how = OpaqueChain(permutations, shuffle, swaps, num_nodes, reduction)
    cell = _cell_of(kind, parameters, requires_grad=False)
    with torch.no_grad():
        out, loss = _run(cell, x, Groups.from_index(index, num_groups), seed, how)
    return out.clone(), loss.clone()


@recurrent_chain.register_fake
def _(
    x: Tensor, index: Any, parameters: Any, seed: Any, kind: str, num_groups: int, *_: Any
) -> Any:
    return x.new_empty(num_groups, *x.shape[1:]), x.new_empty(())


@torch.library.custom_op("treefold::recurrent_chain_backward", mutates_args=())
def recurrent_chain_backward(
    grad_out: Tensor,
    grad_loss: Tensor,
    x: Tensor,
    index: Tensor,
    parameters: Sequence[Tensor],
    seed: Tensor,
    kind: str,
    num_groups: int,
    permutations: int,
    shuffle: bool,
    swaps: bool,
    num_nodes: int,
    reduction: str,
) -> list[Tensor]:
    """The gradients by `x` and by each parameter."""
    how = OpaqueChain(permutations, shuffle, swaps, num_nodes, reduction)
    groups = Groups.from_index(index, num_groups)
    # Inside of an operator torch records no gradients; what another thread does is outside of it.
    with ThreadPoolExecutor(1) as thread:
        find = partial(_gradients, grad_out, grad_loss, x, groups, parameters, seed, kind, how)
        return thread.submit(copy_context().run, find).result()


def _gradients(
    grad_out: Tensor,
    grad_loss: Tensor,
    x: Tensor,
    groups: Groups,
    parameters: Sequence[Tensor],
    seed: Tensor,
    kind: str,
    how: OpaqueChain,
) -> list[Tensor]:
    cell = _cell_of(kind, parameters, requires_grad=True)
    rows = x.detach().requires_grad_()
    made = _run(cell, rows, groups, seed, how)
    wanted = [rows, *cell.parameters()]
    given = [(out, grad) for out, grad in zip(made, (grad_out, grad_loss), strict=True)]
    given = [(out, grad) for out, grad in given if out.requires_grad]
    found = torch.autograd.grad(
        [out for out, _ in given], wanted, [grad for _, grad in given], allow_unused=True
    )
    pairs = zip(found, wanted, strict=True)
    return [torch.zeros_like(of) if grad is None else grad.clone() for grad, of in pairs]


@recurrent_chain_backward.register_fake
def _(grad_out: Any, grad_loss: Any, x: Tensor, index: Any, parameters: Any, *_: Any) -> Any:
    return [torch.empty_like(each) for each in (x, *parameters)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, index, parameters, seed, *how = inputs
    ctx.save_for_backward(x, index, seed, *parameters)
    ctx.how = how


def _differentiate(ctx: Any, grad_out: Tensor, grad_loss: Tensor) -> tuple[Any, ...]:
    x, index, seed, *parameters = ctx.saved_tensors
    of_x, *of_parameters = recurrent_chain_backward(
        grad_out, grad_loss, x, index, parameters, seed, *ctx.how
    )
    return of_x, None, of_parameters, None, *(None for _ in ctx.how)


recurrent_chain.register_autograd(_differentiate, setup_context=_keep)


def _cell_of(kind: str, parameters: Sequence[Tensor], requires_grad: bool) -> RecurrentCell:
    """A cell with these parameters."""
    with torch.device("meta"):  # nothing is drawn there
        cell = CELLS[kind](parameters[0].shape[-1])
    for (name, _), given in zip(list(cell.named_parameters()), parameters, strict=True):
        owner, _, last = name.rpartition(".")
        part = torch.nn.Parameter(given.detach(), requires_grad)
        setattr(cell.get_submodule(owner), last, part)
    return cell


def _run(
    cell: RecurrentCell, x: Tensor, groups: Groups, seed: Tensor, how: OpaqueChain
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(int(seed))
    sampling = Sampling(how.num_nodes or None, how.reduction)
    outputs, losses = [], []
    for number in range(how.permutations):
        ordered = groups.shuffled(generator) if how.shuffle else groups.rearranged(number)
        packed = PackedOrder.of(ordered)
        chain = chain_fold(cell, x, ordered, cell.initial, how.swaps)
        outputs.append(cell.output(chain.groups))
        if how.swaps:
            rows = x.index_select(0, packed.rows)
            states = cast(Any, chain.states)
            losses.append(swap_loss(cell, rows, states, packed, sampling, generator))
    loss = torch.stack(losses).sum() if losses else x.new_zeros(())
    return torch.stack(outputs).mean(0), loss
