"""Stability of a fold: distances between its answer and those of other bracketings.

A monoid gives one answer whatever the order. A learned operator is only nearly associative, so
every bracketing gives a slightly different one. These functions try some and measure.
Folds that are too large to repeat are measured on some whole groups.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from treefold.algebra import Monoid, State, compare, draw_integers, map_state, require_monoid
from treefold.fold import (
    Bracketing,
    Groups,
    Rows,
    plan_tree,
    require_rows,
    take_rows,
    tree_reduce,
)
from treefold.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class BracketingStability:
    """Distances between an answer and those of other bracketings, in the units of the output.

    `absolute` are Euclidean norms over all features; `relative` are the same, divided by the larger
    norm of the two answers. Both are zero for sets of fewer than two elements.
    """

    absolute: Float[Tensor, " bracketings sets"]
    relative: Float[Tensor, " bracketings sets"]

    @property
    def largest(self) -> Float[Tensor, " sets"]:
        """The largest distance found for each set."""
        return self.absolute.amax(0)

    @property
    def typical(self) -> Float[Tensor, " sets"]:
        """The root of the mean squared distance for each set."""
        return self.absolute.square().mean(0).sqrt()

    def __str__(self) -> str:
        count, sets = self.absolute.shape
        if not sets:
            return f"no sets, {count} bracketings"
        typical, largest = float(self.typical.mean()), float(self.largest.max())
        return (
            f"{count} bracketings of {sets} sets: typically {typical:.3g} apart, "
            f"at most {largest:.3g} ({float(self.relative.max()):.2%} of the answer)"
        )


def bracketing_stability(
    op: Monoid,
    x: State,
    groups: Groups,
    num_bracketings: int = 8,
    generator: torch.Generator | None = None,
    decode: Callable[..., State] | None = None,
    *,
    bracketing: Bracketing = "random",
    reference: State | None = None,
) -> BracketingStability:
    """Fold each group in `num_bracketings` other ways and measure how far the answers move.

    Each way is a fresh order of the elements and a fresh tree, of the kind `bracketing` names.
    Distances are those to `reference`, one state per group, or if it is None to what the balanced
    tree gives. `decode` turns states into outputs; by default it is the monoid's own, if it has
    one. No gradients.
    """
    require_monoid(op)
    require_bracketings(num_bracketings)
    require_rows(x, groups)
    with torch.no_grad():
        if reference is None:
            rows = map_state(lambda part: part[groups.order], x)
            reference = tree_reduce(op, rows, plan_tree(groups.sizes))
        others = []
        for _ in range(num_bracketings):
            order = groups.shuffled(generator).order
            plan = plan_tree(groups.sizes, bracketing, generator)
            others.append(tree_reduce(op, map_state(lambda part: part[order], x), plan))  # noqa: B023
        return stability_of(op, reference, others, groups.sizes, decode)


def require_bracketings(num_bracketings: int) -> None:
    """Refuse to measure with none."""
    if num_bracketings < 1:
        raise ValueError(f"{num_bracketings} bracketings measure nothing; expected 1 or more")


def stability_of(
    op: Monoid,
    answer: State,
    others: list[State],
    sizes: Int[Tensor, " sets"],
    decode: Callable[..., State] | None = None,
) -> BracketingStability:
    """The distances between one answer per set and other answers, both decoded."""
    with torch.no_grad():
        decode = decode or getattr(op, "decode", None) or (lambda state: state)
        found = distances(decode(answer), [decode(other) for other in others])
        # One element, or none, has one bracketing; and the mean of nothing is NaN.
        certain = sizes < 2
        return BracketingStability(
            found.absolute.masked_fill(certain, 0), found.relative.masked_fill(certain, 0)
        )


def distances(answer: State, others: list[State]) -> BracketingStability:
    """The distances between outputs and other outputs, row by row."""
    violations = [compare(other, answer) for other in others]
    return BracketingStability(
        torch.stack([found.absolute for found in violations]),
        torch.stack([found.relative for found in violations]),
    )


@torch.no_grad()
def graph_stability(
    infer: Callable[[Tensor], Tensor],
    edge_index: Int[Tensor, " 2 edges"],
    num_bracketings: int = 4,
    generator: torch.Generator | None = None,
) -> BracketingStability:
    """Measure how far the outputs `infer(edge_index)` move, node by node, with the order of edges.

    All layers together, in the units of the last one: errors of the first one pass through the
    others. For `infer_layerwise`, `infer` is
    `lambda edges: infer_layerwise(layers, x, edges, budget_bytes)`. It is called
    `num_bracketings` + 1 times. Trees keep the shapes that the layers give them, and other
    neighbours meet in them, as the order of `edge_index` decides.
    """
    require_bracketings(num_bracketings)
    device = edge_index.device if generator is None else generator.device
    answer, others = infer(edge_index), []
    for _ in range(num_bracketings):
        order = torch.randperm(edge_index.shape[1], generator=generator, device=device)
        others.append(infer(edge_index[:, order.to(edge_index.device)]))
    return distances(answer, list(others))


def sampled_stability(
    op: Monoid,
    x: Rows,
    groups: Groups,
    num_groups: int = 64,
    num_bracketings: int = 8,
    generator: torch.Generator | None = None,
    decode: Callable[..., State] | None = None,
) -> BracketingStability:
    """Measure how far other merge orders move the answers of at most `num_groups` groups.

    The largest group is always among them, because it has the tallest tree; the others are drawn
    from those with at least two rows. For `fold_in_budget(op, table, rows, groups, ...)`, or a plan
    of `plan_chunks`, give `TableRows(table, rows)` as `x`. The rows of the drawn groups are all in
    memory at once; for a group too large for that, feed a `StreamingFold` with witnesses.
    """
    require_rows(x, groups)
    chosen = _drawn(groups.sizes, num_groups, generator)
    rows, sizes = _rows_of(x, groups, chosen)
    whole = Groups.from_sizes(sizes)
    return bracketing_stability(op, rows, whole, num_bracketings, generator, decode)


def sharded_stability(
    op: Monoid,
    x: Rows,
    groups: Groups,
    process_group: dist.ProcessGroup | None = None,
    num_groups: int = 64,
    num_bracketings: int = 8,
    generator: torch.Generator | None = None,
    decode: Callable[..., State] | None = None,
) -> BracketingStability:
    """Measure the same for `sharded_reduce`: every process calls it, all get the same result.

    The rows of the drawn groups travel to every process. What is random is drawn with the
    generator of the first one.
    """
    require_rows(x, groups)
    if not (dist.is_available() and dist.is_initialized()):
        return sampled_stability(op, x, groups, num_groups, num_bracketings, generator, decode)
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
    return bracketing_stability(op, rows, whole, num_bracketings, same, decode)


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
    """Gather an object from every process, in the order of ranks."""
    given: list[Any] = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(given, mine, group=process_group)
    return given
