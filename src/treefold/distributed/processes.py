"""A fold over elements of several processes: each folds its own, the operator joins the parts."""

import torch
import torch.distributed as dist

from treefold.algebra import Monoid, State, map_state, require_monoid, tensors_of
from treefold.distributed.exchange import Exchange
from treefold.distributed.shard_plan import ShardBracketing, ShardPlan, plan_shards
from treefold.fold import Groups, Rows, TableRows, require_rows, take_rows, tree_reduce


def sharded_reduce(
    op: Monoid,
    x: Rows,
    groups: Groups,
    process_group: dist.ProcessGroup | None = None,
    *,
    bracketing: ShardBracketing = "balanced",
    plan: ShardPlan | None = None,
) -> State:
    """Fold groups whose rows are distributed over processes; all of them get all results.

    Every process of `process_group` calls this with its own rows `x` and its own `groups`, as many
    of them everywhere; either may be empty. A group's rows are those of rank 0, then those of
    rank 1, and so on. See `plan_shards` for the tree they are folded over; a `plan` from an
    earlier call of it, for the same sizes, is used as it is.

    Processes that give other numbers of groups, kinds of rows, bracketings or plans than each
    other all raise a ValueError that lists what each rank gave.

    Gradients are those of the sum of all processes' losses, so every process must take part in
    the backward pass. A loss that all of them compute alike gets, with the mean over processes
    that DistributedDataParallel takes, the parameter gradients of one process.
    """
    require_monoid(op)
    exchange = Exchange(process_group)
    sample = tensors_of(x.table if isinstance(x, TableRows) else x)
    device = sample[0].device
    require_rows(x, groups)
    shapes = ", ".join(f"{tensor.dtype} {list(tensor.shape[1:])}" for tensor in sample)
    gradients = "with" if torch.is_grad_enabled() else "without"
    trees = f"bracketing {bracketing!r}" if plan is None else _described(plan, groups)
    exchange.agree(
        f"{groups.num_groups} groups of rows {shapes} {gradients} gradients, {trees}", device
    )

    plan = plan or _plan(exchange, groups, bracketing)
    rows = x[groups.order] if isinstance(x, TableRows) else take_rows(x, groups.order)
    parts = tree_reduce(op, rows, plan.here)
    needs_grad = exchange.any(any(part.requires_grad for part in tensors_of(parts)), device)
    everywhere = map_state(
        lambda part: exchange.gather_uneven(
            part, plan.parts_per_shard, needs_grad and part.is_floating_point()
        ),
        parts,
    )
    return tree_reduce(op, take_rows(everywhere, plan.by_group), plan.join)


def _plan(exchange: Exchange, groups: Groups, bracketing: ShardBracketing) -> ShardPlan:
    sizes = exchange.gather(groups.sizes).view(exchange.size, groups.num_groups)
    return plan_shards(sizes, exchange.rank, bracketing)


def _described(plan: ShardPlan, groups: Groups) -> str:
    """Describe the properties of a plan that must be equal in all processes."""
    fits = plan.here.num_rows == groups.order.numel()
    return (
        f"a plan that {'fits' if fits else 'does not fit'} its rows, for parts "
        f"{list(plan.parts_per_shard)} joined by {plan.join}"
    )
