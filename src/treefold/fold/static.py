"""The balanced fold with shapes that depend on the numbers of rows and groups alone.

`plan_balanced` reads group sizes on the host, so that no level does spare work. Here nothing is
read: what torch.compile, torch.export or a CUDA graph records holds for any batch. The trees, and
so the answers, are those of `plan_balanced`.

    slots of all groups, the tallest tree first     a a a a | b b | c | d | . .
    level 1 merges neighbours                        a   a  |  b  | . . .
    level 2                                            a    | . . .

The root of a group of 2^k slots is made at level k, at a place that arithmetic knows. Rows behind
the live ones are spare: they merge copies of the first row, and nobody reads what they make. The
operator is applied at most 1.5 E + 3 L + 3 times for E rows and L levels.
"""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from treefold.algebra import Monoid, State, identity_like, map_state
from treefold.shapes import Bool, Int

MAX_GROUP_SIZE = 1 << 16
"""The largest group that a static plan allows where the caller names no other."""


class StaticPlan(NamedTuple):
    """Balanced trees over groups of rows, as index tensors of fixed length."""

    sizes: Int[Tensor, " groups"]
    rows: Int[Tensor, " slots"]
    """The row in each slot; the left one of its two where it holds a pair."""
    pairs: Int[Tensor, " pairs 2"]
    """Rows that meet at the first, ragged level, then spare ones."""
    pair_of: Int[Tensor, " slots"]
    """The pair in each slot, where it holds one."""
    is_pair: Bool[Tensor, " slots"]
    num_live: Int[Tensor, " levels"]
    """How many rows of each further level are live: the first ones."""
    roots: Int[Tensor, " groups"]
    """Each group's root, as a place in [slots, level 1, level 2, ...]; any place if it is empty."""
    max_size: int


class StaticLevel(NamedTuple):
    """What one level of a static fold merges, and what it makes; rows that are not live are spare.

    Level 0 is the ragged one. The rows that level 1 merges are neighbours among the slots, those of
    each further level are neighbours among what the level before has made.
    """

    left: State
    right: State
    made: State
    is_live: Bool[Tensor, " rows"]


class StaticFold(NamedTuple):
    """The groups of a static fold, and its levels on the way."""

    groups: State
    levels: list[StaticLevel]


def plan_static(
    index: Int[Tensor, " n"], num_groups: int, max_size: int = MAX_GROUP_SIZE
) -> StaticPlan:
    """Plan the fold of row `i` into group `index[i]`, for at least one row in all.

    Rows of a group keep their order. A group of more than `max_size` rows is an error on a CPU;
    where that cannot be raised without waiting for the device, its answer is NaN.
    """
    device = index.device
    order = stable_order(index)
    sizes = _checked(_count(index, num_groups), max_size)
    starts = sizes.cumsum(0) - sizes

    powers = torch.tensor([1 << level for level in range(_height(max_size) + 1)], device=device)
    heights = (sizes.unsqueeze(1) > powers[:-1]).sum(1)
    slots = torch.where(sizes > 0, powers[(heights - 1).clamp(min=0)], 0)
    tallest = stable_order(-slots)
    offsets = slots[tallest].cumsum(0) - slots[tallest]

    tree = _groups_of_slots(offsets, slots[tallest], _num_slots(index))
    place = torch.arange(_num_slots(index), device=device) - offsets[tree]
    group = tallest[tree]
    size, width = sizes[group], slots[group]
    # Slot j of s holds the rows from floor(j n / s) to floor((j + 1) n / s): one or two of them.
    is_live, whole = place < width, width.clamp(min=1)
    low, high = place * size // whole, (place + 1) * size // whole
    first = torch.where(is_live, starts[group] + low, 0)
    is_pair = is_live & (high - low == 2)
    pair_of = (is_pair.cumsum(0) - 1).clamp(min=0)

    num_pairs = index.shape[0] // 2 + 2
    left = _scattered(first, torch.where(is_pair, pair_of, num_pairs), num_pairs)
    right = (left + 1).clamp(max=index.shape[0] - 1)
    levels = powers[1:-1]
    return StaticPlan(
        sizes=sizes,
        rows=order[first],
        pairs=order[torch.stack([left, right], 1)],
        pair_of=pair_of,
        is_pair=is_pair,
        num_live=(slots.unsqueeze(1) // levels).sum(0),
        roots=_roots(index, slots, tallest, offsets, heights, len(levels)),
        max_size=max_size,
    )


def fold_static(op: Monoid, x: State, plan: StaticPlan) -> State:
    """Fold each group of rows of `x`; empty groups give the identity of `op`."""
    return fold_static_levels(op, x, plan).groups


def fold_static_levels(op: Monoid, x: State, plan: StaticPlan) -> StaticFold:
    """Fold as `fold_static` does, and return every level as well."""
    device = plan.sizes.device
    spare = map_state(lambda rows: rows[:1].detach(), x)
    left, right = (state_rows(x, plan.pairs[:, side]) for side in (0, 1))
    met = op(left, right)
    pool = state_where(plan.is_pair, state_rows(met, plan.pair_of), state_rows(x, plan.rows))
    numbers = torch.arange(plan.pairs.shape[0], device=device)
    levels = [StaticLevel(left, right, met, numbers < plan.is_pair.sum())]
    made = [pool]
    for number in range(plan.num_live.shape[0]):
        count = _next_count(_length(pool))
        is_live = torch.arange(count, device=device) < plan.num_live[number]
        left, right = merging_neighbours(pool, count)
        # Spare rows would grow without bound from level to level, and their gradients be NaN.
        pool = op(state_where(is_live, left, spare), state_where(is_live, right, spare))
        levels.append(StaticLevel(left, right, pool, is_live))
        made.append(pool)
    roots = state_rows(map_state(lambda *parts: torch.cat(parts), *made), plan.roots)
    found = state_where(plan.sizes > 0, roots, identity_like(op, roots))
    groups = map_state(lambda rows: _unanswered(rows, plan.sizes > plan.max_size), found)
    return StaticFold(groups, levels)


def stable_order(values: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The order that sorts the values; among equal ones, the order that they have."""
    if not torch.onnx.is_in_onnx_export():
        return values.argsort(stable=True)
    # ONNX has no stable sort, and needs none where no two are equal.
    count = values.shape[0]
    numbers = torch.arange(count, device=values.device)
    return torch.sort(values * count + numbers).indices


def _height(max_size: int) -> int:
    """The height of the tallest tree, at least 1: ceil(log2 max_size)."""
    return max((max_size - 1).bit_length(), 1)


def _num_slots(index: Tensor) -> int:
    # Two or more at every level: torch makes special cases of sizes 0 and 1.
    return index.shape[0] + 2


def _next_count(count: int) -> int:
    return count // 2 + 1


def _count(index: Tensor, num_groups: int) -> Tensor:
    zeros = torch.zeros(num_groups, dtype=torch.int64, device=index.device)
    return zeros.scatter_add(0, index, torch.ones_like(index))


def _groups_of_slots(offsets: Tensor, widths: Tensor, num_slots: int) -> Tensor:
    """The tree that each slot is of, counted from the tallest; any tree for spare slots."""
    begins = torch.zeros(num_slots, dtype=torch.int64, device=offsets.device)
    begins = begins.scatter_add(0, offsets, (widths > 0).long())
    return (begins.cumsum(0) - 1).clamp(min=0)


def _scattered(values: Tensor, places: Tensor, count: int) -> Tensor:
    """Values at their places below `count`; all others go nowhere."""
    out = torch.zeros(count + 1, dtype=values.dtype, device=values.device)
    return out.scatter(0, places, values)[:count]


def _roots(
    index: Tensor, slots: Tensor, tallest: Tensor, offsets: Tensor, heights: Tensor, levels: int
) -> Tensor:
    """A group of 2^k slots ends at level k, `offset / 2^k` rows from the start of that level."""
    counts = [_num_slots(index)]
    for _ in range(levels):
        counts.append(_next_count(counts[-1]))
    begins, total = [], 0
    for count in counts:
        begins.append(torch.full((), total, dtype=torch.int64, device=index.device))
        total = total + count
    found = torch.stack(begins)[(heights - 1).clamp(min=0)]
    first = torch.zeros_like(offsets).scatter(0, tallest, offsets)
    return found + first // slots.clamp(min=1)


def _length(state: State) -> int:
    return state.shape[0] if isinstance(state, Tensor) else _length(state[0])


def state_rows(state: State, index: Int[Tensor, " m"]) -> State:
    """The rows of a state at `index`."""
    return map_state(lambda rows: rows.index_select(0, index), state)


def state_where(condition: Bool[Tensor, " n"], one: State, other: State) -> State:
    """Row by row, one state or the other."""
    return map_state(
        lambda one, other: torch.where(_like(condition, one), one, other.to(one.dtype)), one, other
    )


def _like(mask: Tensor, rows: Tensor) -> Tensor:
    """The mask with as many axes as the rows."""
    return mask.reshape(-1, *(1 for _ in rows.shape[1:]))


def merging_neighbours(pool: State, count: int) -> tuple[State, State]:
    """The first `count` pairs of neighbours; the last may be of rows that are not there, zeros."""
    # Slices with a step: torch.export cannot prove that views as pairs fit.
    longer = map_state(lambda rows: _padded(rows, 2 * count), pool)
    return map_state(lambda p: p[:-1:2], longer), map_state(lambda p: p[1::2], longer)


def _padded(rows: Tensor, count: int) -> Tensor:
    """As many rows as `count`, zeros at the end."""
    return nn.functional.pad(rows, (*(0, 0) * (rows.dim() - 1), 0, count - rows.shape[0]))


def _unanswered(rows: Tensor, too_large: Tensor) -> Tensor:
    if not (rows.is_floating_point() or rows.is_complex()):
        return rows
    return rows.masked_fill(_like(too_large, rows), float("nan"))


def _checked(sizes: Tensor, max_size: int) -> Tensor:
    """The sizes, refused while the fold runs if one is larger than `max_size`."""
    if torch.onnx.is_in_onnx_export():
        return sizes
    return cast(Tensor, refuse_large_groups(sizes, max_size))


@torch.library.custom_op("treefold::refuse_large_groups", mutates_args=())
def refuse_large_groups(sizes: Tensor, max_size: int) -> Tensor:
    """A copy of the sizes; on a CPU, an error if one is too large."""
    if sizes.device.type == "cpu" and sizes.numel() and int(sizes.max()) > max_size:
        raise ValueError(
            f"a group has {int(sizes.max())} rows; this fold was recorded for at most {max_size}: "
            "set a larger `max_num_elements` before compiling or exporting"
        )
    return sizes.clone()


@refuse_large_groups.register_vmap
def _(info: Any, in_dims: tuple[int | None, None], sizes: Tensor, max_size: int) -> Any:
    return refuse_large_groups(sizes, max_size), in_dims[0]


@refuse_large_groups.register_fake
def _(sizes: Tensor, max_size: int) -> Any:
    return torch.empty_like(sizes)
