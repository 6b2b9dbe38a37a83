"""The levels of a plan, as kernels that do one at a time are told of them."""

from dataclasses import dataclass

from torch import Tensor

from treefold.fold import TreePlan


@dataclass(frozen=True)
class Level:
    """Pairs that meet at once; places are those in [leaves, nodes], counted without inner axes."""

    first: int
    """The first row of pairs that are neighbours; -1 if they are in `children`."""
    children: Tensor
    node: int
    num_pairs: int
    num_projected: int
    """The first ones of the nodes, which may meet again."""
    inner: int
    is_tree: bool
    """No state of the plan meets twice."""

    @property
    def are_neighbours(self) -> bool:
        """Pairs need not be looked up."""
        return self.first >= 0

    @property
    def num_rows(self) -> int:
        """Pairs, once for each inner row."""
        return self.num_pairs * self.inner

    def projected(self, rows: Tensor) -> Tensor:
        """Those of nodes that may meet again."""
        return rows[self.node : self.node + self.num_projected]


def levels_of(plan: TreePlan, inner: int) -> list[Level]:
    """The levels in order; nothing is read from the plan's tensors."""
    levels, start, node = [], 0, plan.num_rows
    ends = plan.num_singles + plan.root_groups.numel()
    is_tree = 2 * plan.num_applications + ends == plan.num_rows + plan.num_applications
    for level, after in zip(plan.levels, [*plan.levels[1:], None], strict=False):
        made, count = node - plan.num_rows, level.num_pairs
        again = 0  # of its nodes, how many may meet again
        if after is not None:
            in_play = 2 * after.num_pairs + after.num_waiting
            again = count if after.take is not None else in_play
        first = start if level.take is None else -1
        children = plan.children[made : made + count]
        levels.append(Level(first, children, node, count, min(count, again), inner, is_tree))
        start, node = node, node + count
    return levels
