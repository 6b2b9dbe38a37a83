"""The balanced fold with shapes that depend on the numbers of rows and groups alone.

`plan_balanced` reads group sizes on the host, and no level does spare work. Here nothing is
read: what torch.compile, torch.export or a CUDA graph records holds for any batch. The trees, and
so the answers, are those of `plan_balanced`.

    slots of all groups, the tallest tree first     a a a a | b b | c | d | . .
    level 1 merges neighbours                        a   a  |  b  | . . .
    level 2                                            a    | . . .

The root of a group of 2^k slots is made at level k, at a place that arithmetic knows. Rows behind
the live ones are spare: they merge copies of the first row, and nobody reads what they make. The
operator is applied at most 1.5 E + 3 L + 3 times for E rows and L levels.
"""

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from treefold.algebra import Monoid, State, identity_like, map_state
from treefold.shapes import Bool, Int

MAX_GROUP_SIZE = 1 << 16
"""The largest group that a static plan allows where the caller names no other."""


class StaticPlan(NamedTuple):
    """Balanced trees over groups of rows, as index tensors of fixed length.

    Places are those in [rows, pairs, level 1, level 2, ...].
    """

    sizes: Int[Tensor, " groups"]
    pairs: Int[Tensor, " pairs 2"]
    """Rows that meet at the first, ragged level, then spare ones."""
    slots: Int[Tensor, " slots"]
    """The place of the row or pair in each slot, then spare ones."""
    roots: Int[Tensor, " groups"]
    """The place of each group's root; any place if it is empty."""
    is_live: list[Bool[Tensor, " rows"]]
    """For the pairs, and for each further level: what merges two by two, and is not spare."""
    max_size: int


class StaticTrees(NamedTuple):
    """Nodes by their children. What is not live is spare, and has any children."""

    num_rows: int
    children: Int[Tensor, " nodes 2"]
    """Places in [rows, nodes]."""
    is_live: Bool[Tensor, " nodes"]


class StaticFold(NamedTuple):
    """The groups of a static fold, and all states on the way: rows, then nodes."""

    groups: State
    states: State


def plan_static(
    index: Int[Tensor, " n"], num_groups: int, max_size: int = MAX_GROUP_SIZE
) -> StaticPlan:
    """Plan the fold of row `i` into group `index[i]`, for at least one row in all.

    Rows of a group keep their order. A group of more than `max_size` rows is an error on a CPU;
    where that cannot be raised without waiting for the device, its answer is NaN, or an index out
    of range if it is no floating-point number.
    """
    if not torch.compiler.is_exporting():
        made = _plan_unseen(index, num_groups, max_size)
    else:  # for those who have no treefold
        made = _plan(index, num_groups, max_size)
        if index.device.type == "cpu" and not torch.onnx.is_in_onnx_export():
            largest = made[0].max().item()
            torch._check(largest <= max_size, lambda: f"a group has more than {max_size} rows")
    sizes, pairs, slots, roots, *is_live = made
    return StaticPlan(sizes, pairs, slots, roots, is_live, max_size)


def fold_static(op: Monoid, x: State, plan: StaticPlan) -> StaticFold:
    """Fold each group of rows of `x`; empty groups give the identity of `op`."""
    spare = map_state(lambda rows: rows[:1].detach(), x)
    met = op(*_neighbours(state_rows(x, plan.pairs.flatten())))
    states = [x, met]
    pool = state_rows(join_states(states), plan.slots)
    for is_live in plan.is_live[1:]:
        # Spare rows would grow without bound from level to level, and their gradients be NaN.
        longer = map_state(partial(_padded, count=is_live.shape[0]), pool)
        pool = op(*_neighbours(state_where(is_live, longer, spare)))
        states.append(pool)
    made = join_states(states)
    found = state_rows(made, plan.roots)
    if plan.sizes.device.type != "cpu" or torch.onnx.is_in_onnx_export():
        found = map_state(lambda rows: _refused(rows, plan), found)
    return StaticFold(state_where(plan.sizes > 0, found, identity_like(op, found)), made)


def trees_of(plan: StaticPlan, num_rows: int) -> StaticTrees:
    """The nodes of a static fold of so many rows."""
    children, begin = [plan.pairs], num_rows
    slots = _padded(plan.slots, plan.is_live[1].shape[0]) if plan.is_live[1:] else plan.slots
    below, count = slots, plan.pairs.shape[0]
    for is_live in plan.is_live[1:]:
        children.append(_padded(below, is_live.shape[0]).view(-1, 2))
        begin, count = begin + count, is_live.shape[0] // 2
        below = torch.arange(count, device=slots.device) + begin
    lefts = [is_live.view(-1, 2)[:, 0] for is_live in plan.is_live]
    return StaticTrees(num_rows, torch.cat(children), torch.cat(lefts))


def _plan(index: Tensor, num_groups: int, max_size: int) -> list[Tensor]:
    device, num_rows = index.device, index.shape[0]
    order = stable_order(index)
    zeros = torch.zeros(num_groups, dtype=torch.int64, device=device)
    sizes = zeros.scatter_add(0, index, torch.ones_like(index))
    starts = sizes.cumsum(0) - sizes

    height = max((max_size - 1).bit_length(), 1)
    powers = torch.tensor([1 << level for level in range(height)], device=device)
    levels = (sizes.unsqueeze(1) > powers[1:height]).sum(1)  # of the roots, above the slots
    widths = torch.where(sizes > 0, powers[levels], 0)
    tallest = stable_order(-widths)
    offsets = widths[tallest].cumsum(0) - widths[tallest]

    # Two or more rows at every level: torch makes special cases of sizes 0 and 1.
    counts = [num_rows // 2 + 1]
    for _ in range(height - 2):
        counts.append(counts[-1] // 2 + 1)
    num_pairs, num_slots = counts[0], 2 * counts[0]
    begins = torch.zeros(num_slots, dtype=torch.int64, device=device)
    begins = begins.scatter_add(0, offsets, (widths[tallest] > 0).long())
    group = tallest[(begins.cumsum(0) - 1).clamp(min=0)]
    first = torch.zeros_like(offsets).scatter(0, tallest, offsets)
    place = torch.arange(num_slots, device=device) - first[group]
    size, width = sizes[group], widths[group]
    # Slot j of s holds the rows from floor(j n / s) to floor((j + 1) n / s): one or two of them.
    is_live, whole = place < width, width.clamp(min=1)
    low, high = place * size // whole, (place + 1) * size // whole
    row = torch.where(is_live, starts[group] + low, 0)
    is_pair = is_live & (high - low == 2)
    pair = (is_pair.cumsum(0) - 1).clamp(min=0)
    left = torch.zeros(num_pairs + 1, dtype=torch.int64, device=device)
    left = left.scatter(0, torch.where(is_pair, pair, num_pairs), row)[:num_pairs]
    right = (left + 1).clamp(max=num_rows - 1)
    slots = torch.where(is_pair, num_rows + pair, order[row])

    places, begin = [slots[first]], num_rows + num_pairs
    lives = [torch.arange(num_slots, device=device) < 2 * is_pair.sum()]
    for level in range(1, height):
        count = counts[level - 1]
        places.append(begin + first // powers[level])
        begin = begin + count
        live = 2 * (widths // powers[level]).sum()
        lives.append(torch.arange(2 * count, device=device) < live)
    roots = torch.stack(places).gather(0, levels.unsqueeze(0)).squeeze(0)
    return [sizes, order[torch.stack([left, right], 1)], slots, roots, *lives]


@torch.library.custom_op("treefold::plan_static", mutates_args=())
def _plan_unseen(index: Tensor, num_groups: int, max_size: int) -> list[Tensor]:
    """A plan that torch.compile does not look into; on a CPU, an error if a group is too large."""
    made = _plan(index, num_groups, max_size)
    if index.device.type == "cpu" and num_groups:
        require_small(int(made[0].max()), max_size)
    return made


def require_small(largest: int, max_size: int) -> None:
    """Refuse a group of more than `max_size` rows."""
    if largest > max_size:
        raise ValueError(
            f"a group has {largest} rows; this fold was recorded for at most {max_size}: set a "
            "larger `max_num_elements` before compiling or exporting"
        )


_plan_unseen.register_fake(_plan)


@_plan_unseen.register_vmap
def _(info: Any, in_dims: Any, index: Tensor, num_groups: int, max_size: int) -> Any:
    made = [_plan_unseen(each, num_groups, max_size) for each in index.unbind(in_dims[0])]
    return [torch.stack(parts) for parts in zip(*made, strict=True)], [0] * len(made[0])


def stable_order(values: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The order that sorts the values; among equal ones, the order that they have."""
    if not torch.onnx.is_in_onnx_export():
        return values.argsort(stable=True)
    # ONNX has no stable sort, and needs none where no two are equal.
    count = values.shape[0]
    numbers = torch.arange(count, device=values.device)
    return torch.sort(values * count + numbers).indices


def state_rows(state: State, index: Int[Tensor, " m"]) -> State:
    """The rows of a state at `index`."""
    return map_state(lambda rows: rows.index_select(0, index), state)


def join_states(states: list[State]) -> State:
    """All rows of all states, one state after the other."""
    return map_state(lambda *parts: torch.cat(parts), *states)


def state_where(condition: Bool[Tensor, " n"], one: State, other: State) -> State:
    """Row by row, one state or the other."""
    return map_state(
        lambda one, other: torch.where(mask_like(condition, one), one, other.to(one.dtype)),
        one,
        other,
    )


def mask_like(mask: Bool[Tensor, " n"], rows: Tensor) -> Tensor:
    """The mask with as many axes as the rows."""
    return mask.reshape(-1, *(1 for _ in rows.shape[1:]))


def _neighbours(rows: State) -> tuple[State, State]:
    """The rows at even places, and those at odd ones."""
    pairs = map_state(lambda part: part.unflatten(0, (part.shape[0] // 2, 2)), rows)
    return map_state(lambda part: part[:, 0], pairs), map_state(lambda part: part[:, 1], pairs)


def _padded(rows: Tensor, count: int) -> Tensor:
    """As many rows as `count`, zeros at the end."""
    return nn.functional.pad(rows, (*(0, 0) * (rows.dim() - 1), 0, count - rows.shape[0]))


def _refused(found: Tensor, plan: StaticPlan) -> Tensor:
    """The groups without those that are too large, whose sizes nobody may read."""
    too_large = plan.sizes > plan.max_size
    if torch.onnx.is_in_onnx_export() or not (found.is_floating_point() or found.is_complex()):
        places = torch.arange(found.shape[0], device=found.device)
        return found.index_select(0, torch.where(too_large, found.shape[0], places))
    return found.masked_fill(mask_like(too_large, found), float("nan"))
