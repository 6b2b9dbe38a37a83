"""The spread of folds that are too large to do again: some whole groups, in other merge orders.

For `fold_in_budget`, `plan_chunks` and `sharded_reduce`, which fold the balanced tree: distances
are those between its answer and the answers of random orders and trees.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from treefold.algebra import Monoid, State, draw_integers, map_state
from treefold.fold import Groups, Rows, require_rows, take_rows
from treefold.incremental.stability import BracketingSpread, bracketing_spread
from treefold.shapes import Int


def sampled_spread(
    op: Monoid,
    x: Rows,
    groups: Groups,
    num_groups: int = 64,
    num_bracketings: int = 8,
    generator: torch.Generator | None = None,
    decode: Callable[..., State] | None = None,
) -> BracketingSpread:
    """How far other merge orders move the answers of at most `num_groups` groups.

    The largest group is always among them, because it has the tallest tree; the others are drawn
    from those with at least two rows. For `fold_in_budget(op, table, rows, groups, ...)`, or a plan
    of `plan_chunks`, give `TableRows(table, rows)` as `x`. The rows of the drawn groups are all in
    memory at once; for a group too large for that, feed a `StreamingFold` with witnesses.
    """
    require_rows(x, groups)
    chosen = _drawn(groups.sizes, num_groups, generator)
    rows, sizes = _rows_of(x, groups, chosen)
    whole = Groups.from_sizes(sizes)
    return bracketing_spread(op, rows, whole, num_bracketings, generator, decode)


def sharded_spread(
    op: Monoid,
    x: Rows,
    groups: Groups,
    process_group: dist.ProcessGroup | None = None,
    num_groups: int = 64,
    num_bracketings: int = 8,
    generator: torch.Generator | None = None,
    decode: Callable[..., State] | None = None,
) -> BracketingSpread:
    """The same for `sharded_reduce`, with its arguments: every process calls it, all get the same.

    The rows of the drawn groups travel to every process. What is random is drawn with the
    generator of the first one.
    """
    require_rows(x, groups)
    if not (dist.is_available() and dist.is_initialized()):
        return sampled_spread(op, x, groups, num_groups, num_bracketings, generator, decode)
    device = groups.sizes.device
    totals = sum(_from_all(groups.sizes.cpu(), process_group))
    seed = _from_all(int(draw_integers(2**62, (1,), totals, generator)), process_group)[0]
    same = torch.Generator().manual_seed(seed)
    chosen = _drawn(totals, num_groups, same).to(device)
    rows, sizes = _rows_of(x, groups, chosen)
    parts = _from_all((map_state(Tensor.cpu, rows), sizes.cpu()), process_group)
    # Rank by rank to group by group; a group has rank 0's rows first.
    index = torch.cat([torch.repeat_interleave(sizes) for _, sizes in parts])
    rows = map_state(lambda *each: torch.cat(each).to(device), *(rows for rows, _ in parts))
    whole = Groups.from_index(index, chosen.numel()).to(device)
    return bracketing_spread(op, rows, whole, num_bracketings, same, decode)


def _drawn(
    sizes: Int[Tensor, " groups"], num_groups: int, generator: torch.Generator | None
) -> Int[Tensor, " drawn"]:
    """The largest group and some others that have more than one bracketing, in order."""
    if num_groups < 1:
        raise ValueError(f"{num_groups} groups measure nothing; expected 1 or more")
    able = (sizes > 1).nonzero().squeeze(1)
    if able.numel() <= num_groups:
        return able
    largest = sizes.argmax()
    others = able[able != largest]
    device = others.device if generator is None else generator.device
    order = torch.randperm(others.numel(), generator=generator, device=device).to(others.device)
    return torch.cat([largest[None], others[order[: num_groups - 1]]]).sort().values


def _rows_of(x: Rows, groups: Groups, chosen: Tensor) -> tuple[State, Tensor]:
    """The rows of the chosen groups, group by group, and how many each has."""
    is_chosen = torch.zeros(groups.num_groups, dtype=torch.bool, device=chosen.device)
    is_chosen[chosen] = True
    rows = take_rows(x, groups.order[is_chosen[groups.index]])
    return map_state(Tensor.detach, rows), groups.sizes[chosen]


def _from_all(mine: Any, process_group: dist.ProcessGroup | None) -> list[Any]:
    """What every process gives, in the order of ranks."""
    given: list[Any] = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(given, mine, group=process_group)
    return given
