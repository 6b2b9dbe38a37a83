"""The distance of answers of other merge orders from the written ones, on a sample of keys."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from treefold.algebra import ExactMonoid
from treefold.distributed.columns import check_rows, check_type, one_array
from treefold.distributed.keys import sizes_of, sort_by_key
from treefold.distributed.model_fold import ModelFold
from treefold.fold import Groups, plan_tree, tree_reduce
from treefold.incremental import BracketingStability, bracketing_stability

NUM_ORDERS = 8
"""Random orders of a key's rows, each folded over a random tree."""


@dataclass(frozen=True, eq=False)
class TableStability:
    """Changes by another merge order, over the keys of a sample that have two or more rows."""

    num_keys: int
    num_rows: int
    """Rows of these keys in the sample."""
    distances: BracketingStability | None = None
    """Between states; None where `changed` counts."""
    changed: float = 0.0
    """The share that changes of answers, or of states that are integers."""

    @property
    def largest(self) -> float:
        """The largest distance, or the share that changes: 0 if nothing does."""
        if self.distances is None or not self.num_keys:
            return self.changed
        return float(self.distances.largest.max())

    def __str__(self) -> str:
        if not self.num_keys:
            return "not measured: no key of the sample has two or more rows"
        sample = f"({self.num_keys:,} keys with two or more rows, {self.num_rows:,} rows)"
        if not self.largest:
            return f"0, all orders give the same {sample}"
        if self.distances is None:
            return f"{self.changed:.2%} change with another order {sample}"
        typical, relative = self.distances.typical.mean(), self.distances.relative.max()
        return (
            f"with another order states are typically {float(typical):.3g} apart, at most "
            f"{self.largest:.3g}, {float(relative):.2%} of the state {sample}"
        )


def table_stability(
    model: object, sample: pa.Table, *, key: str, on: str, decode: bool = False
) -> TableStability:
    """Measure what other merge orders change, in states, or with `decode` in answers.

    `sample` is an Arrow table small enough for one machine, best with all rows of some keys: such
    as `pa.Table.from_pandas(dataset.filter(expr="user < 50").to_pandas())`. Bad rows and rows
    without a key are left out. For exact monoids all orders agree by definition, but for rounding.
    """
    fold = ModelFold.of(model)
    check_type(sample[on].type, fold, on)
    states, groups = _sets(sample, key, on, fold)
    counts = groups.num_groups, groups.num_rows
    if isinstance(fold.operator, ExactMonoid):
        return TableStability(*counts)
    generator = torch.Generator().manual_seed(0)
    if not decode and states.is_floating_point():
        apart = bracketing_stability(fold.operator, states, groups, NUM_ORDERS, generator)
        return TableStability(*counts, apart)
    read = fold.answers if decode else _unchanged
    written = read(fold.merge(states, groups))
    others = torch.stack(
        [read(_in_another_order(fold, states, groups, generator)) for _ in range(NUM_ORDERS)]
    )
    moved = (others != written).flatten(2).any(2) if written.dim() > 1 else others != written
    return TableStability(*counts, changed=float(moved.double().mean()) if moved.numel() else 0.0)


@torch.no_grad()
def _in_another_order(
    fold: ModelFold, states: Tensor, groups: Groups, generator: torch.Generator
) -> Tensor:
    plan = plan_tree(groups.sizes, "random", generator)
    return cast(Tensor, tree_reduce(fold.operator, states[groups.shuffled(generator).order], plan))


def _sets(sample: pa.Table, key: str, on: str, fold: ModelFold) -> tuple[Tensor, Groups]:
    """The states of the good rows of keys that have two or more of them, key by key."""
    checked = check_rows(sample[on], fold)
    keys = one_array(sample[key]).take(pa.array(checked.good))
    has_key = keys.is_valid()
    x = checked.x[torch.from_numpy(has_key.to_numpy(zero_copy_only=False))]
    keys = keys.filter(has_key)
    order, starts = sort_by_key(keys)
    sizes = sizes_of(starts, len(order))
    kept = torch.from_numpy(order[np.repeat(sizes > 1, sizes)])
    return fold.states(x[kept]), Groups.from_sizes(torch.from_numpy(sizes[sizes > 1]))


def _unchanged(states: Tensor) -> Tensor:
    return states
