"""The part of each process in the tests of `sharded_reduce`, and the same in one process."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from treefold import BinaryGRU, Groups, Monoid, TableRows, plan_tree, tree_reduce
from treefold.algebra import Mean, Sum
from treefold.distributed import plan_shards, shard_sizes, sharded_reduce
from treefold.incremental import sharded_stability

CHANNELS, NUM_GROUPS = 4, 7
TOTALS = torch.tensor([0, 1, 2, 13, 64, 100, 37])
"""Rows of each group over all processes."""


class Bent(nn.Module):
    """Neither associative nor commutative, and each number by itself: its bits tell the tree."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.9, 0.7, 1.1, 0.3], dtype=torch.float64))
        self.identity = nn.Parameter(torch.full((CHANNELS,), 0.5, dtype=torch.float64))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.scale * a + 1.25 * b - a * b / 8


def cuts(name: str, world_size: int) -> Tensor:
    """The number of rows of each group on each rank, `[ranks, groups]`."""
    if name == "at the tree's cuts":
        return shard_sizes(TOTALS, world_size)
    if name == "all on the last rank":
        return torch.cat([torch.zeros(world_size - 1, NUM_GROUPS, dtype=torch.int64), TOTALS[None]])
    share = torch.rand(world_size, NUM_GROUPS, generator=torch.Generator().manual_seed(3))
    if name == "uneven":
        share[0] = 0  # one rank holds nothing
    bounds = (share.cumsum(0) / share.sum(0) * TOTALS).long()
    bounds[-1] = TOTALS
    return bounds.diff(dim=0, prepend=torch.zeros(1, NUM_GROUPS, dtype=torch.int64))


CUTS = ["at the tree's cuts", "all on the last rank", "uneven", "uneven, none without rows"]


def all_rows() -> list[Tensor]:
    """The rows of each group."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(n, CHANNELS, generator=generator, dtype=torch.float64) for n in TOTALS.tolist()
    ]


def rows_of(rank: int, sizes: Tensor) -> tuple[Tensor, Groups]:
    """One rank's rows and groups; the groups take turns, and keep their order."""
    before = sizes[:rank].sum(0).tolist()
    mine = [
        rows[low : low + count]
        for rows, low, count in zip(all_rows(), before, sizes[rank].tolist(), strict=True)
    ]
    index = torch.arange(NUM_GROUPS).repeat_interleave(sizes[rank])
    place = torch.arange(len(index)) - torch.searchsorted(index, index)
    turns = place.argsort(stable=True)
    return torch.cat(mine)[turns], Groups.from_index(index[turns], NUM_GROUPS)


def loss(states: Tensor, rank: int) -> Tensor:
    """Each rank has a loss of its own."""
    weights = torch.linspace(-1, 1, states.numel(), dtype=states.dtype).view_as(states)
    return (states * weights * (rank + 1)).sum()


def fold_all_cuts(rank: int, world_size: int) -> dict[str, dict[str, Tensor]]:
    """For each cut: the states, and the gradients of the rows and of the operator."""
    return {
        f"{operator.__name__} {name}": _folded(operator(), *rows_of(rank, sizes), rank)
        for name in CUTS
        for sizes in [cuts(name, world_size)]
        for operator in (Bent, _binary_gru)
    } | {"other": _other_cases(rank, world_size)}


def in_one_process(operator: Callable[[], nn.Module], world_size: int) -> dict[str, Tensor]:
    """The same with all rows in one place, and the sum of all ranks' losses."""
    op, x = operator(), torch.cat(all_rows()).requires_grad_()
    states = tree_reduce(op, x, plan_tree(TOTALS))
    sum(loss(states, rank) for rank in range(world_size)).backward()
    return {"states": states.detach(), "rows": x.grad, **_gradients(op)}


def _binary_gru() -> nn.Module:
    torch.manual_seed(0)
    return BinaryGRU(CHANNELS).double()


OPERATORS = {"Bent": Bent, "_binary_gru": _binary_gru}


def _folded(op: nn.Module, x: Tensor, groups: Groups, rank: int) -> dict[str, Tensor]:
    x.requires_grad_(len(x) > 0)  # who holds nothing has nothing to differentiate
    states = sharded_reduce(op, x, groups)
    loss(states, rank).backward()
    rows = x.new_zeros(0, CHANNELS) if x.grad is None else x.grad[groups.order]
    return {"states": states.detach(), "rows": rows, **_gradients(op)}


def _gradients(op: nn.Module) -> dict[str, Tensor]:
    return {f"grad {name}": parameter.grad for name, parameter in op.named_parameters()}


def _other_cases(rank: int, world_size: int) -> dict[str, Tensor]:
    """Results that the big table leaves out, for comparison with known values."""
    x, groups = rows_of(rank, cuts("uneven", world_size))
    exact = {
        "sum": sharded_reduce(Sum(), x, groups),
        "by-shard": sharded_reduce(Bent(), x, groups, bracketing="by-shard").detach(),
        "mean": Mean().decode(sharded_reduce(Mean(), Mean().encode(x), groups)),
    }
    table = TableRows(x, torch.arange(len(x)))
    exact["table"] = sharded_reduce(_binary_gru(), table, groups).detach()
    leaf = x.clone().requires_grad_(len(x) > 0)
    summed = sharded_reduce(Sum(), leaf, groups)  # no parameters, and a rank without rows
    summed.square().sum().backward()
    exact["grad of sum"] = leaf.grad[groups.order] if len(x) else x
    exact["stability"] = _stability(_binary_gru(), x, groups, rank)
    exact["stability of sum"] = _stability(Sum(), (1000 * x).long(), groups, rank)
    try:
        sharded_reduce(Sum(), x, Groups.from_sizes([len(x)] + [0] * rank))
    except ValueError as error:
        exact["mismatch"] = torch.tensor(list(str(error).encode()))
    exact |= _disagreements(rank, world_size)
    dist.barrier()
    return exact


def _disagreements(rank: int, world_size: int) -> dict[str, Tensor]:
    """The error that is raised where the processes do not fold the same tree."""
    sizes = 3 * torch.arange(NUM_GROUPS) + torch.arange(1, world_size + 1).unsqueeze(1)
    groups = Groups.from_sizes(sizes[rank])
    x = torch.zeros(groups.num_rows, CHANNELS)
    plan, other = plan_shards(sizes, rank), plan_shards(sizes, rank, "by-shard")
    asked: dict[str, dict[str, Any]] = {
        "bracketing": {"bracketing": "balanced" if rank else "by-shard"},
        "plan or none": {"plan": plan if rank else None},
        "plans": {"plan": plan if rank else other},
        "plan of another rank": {"plan": plan_shards(sizes, 1)},
    }
    said = {}
    for what, options in asked.items():
        try:
            sharded_reduce(Sum(), x, groups, **options)
        except ValueError as error:
            said[f"other {what}"] = torch.tensor(list(str(error).encode()))
    return said


def _stability(op: Monoid, x: Tensor, groups: Groups, rank: int) -> Tensor:
    """Every rank has a generator of its own; the first one's counts."""
    generator = torch.Generator().manual_seed(rank)
    return sharded_stability(op, x, groups, num_groups=3, generator=generator).absolute
