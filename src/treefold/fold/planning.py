"""Bracketings by name: the one door to every way of building trees."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from treefold.fold.groups import checked_sizes
from treefold.fold.plan import TreePlan
from treefold.fold.plan_balanced import plan_balanced
from treefold.fold.plan_carry import plan_carry
from treefold.fold.plan_random import plan_random

# Open to any string, so that a wrong one gets our error and not a type checker's.
Bracketing: TypeAlias = Literal["balanced", "carry", "random"] | str

PLANNERS: dict[str, Callable[[Tensor, torch.Generator | None], TreePlan]] = {
    "balanced": lambda sizes, generator: plan_balanced(sizes),
    "carry": lambda sizes, generator: plan_carry(sizes),
    "random": plan_random,
}


def plan_tree(
    sizes: Tensor | Sequence[int],
    bracketing: Bracketing = "balanced",
    generator: torch.Generator | None = None,
    device: torch.device | None = None,
) -> TreePlan:
    """Plan the fold of consecutive rows, `sizes[g]` of them in group `g`.

    - `"balanced"`: trees of minimal height, ceil(log2 n), whose leaves lie at two adjacent depths.
    - `"carry"`: pair neighbours, carry an odd last one up: the tree of PyG's `LCMAggregation`.
    - `"random"`: a fresh tree per group and call, drawn with `generator`; every shape can occur.

    Plans are made on the host, for the `device` (of the sizes, if None) that folds by them.
    """
    if device is None:
        device = sizes.device if isinstance(sizes, Tensor) else torch.device("cpu")
    plan = PLANNERS[checked_bracketing(bracketing)](checked_sizes(sizes), generator)
    return plan if device.type == "cpu" else plan.to(device)


def checked_bracketing(name: str) -> str:
    """The name of a bracketing, or a ValueError that lists them."""
    if name not in PLANNERS:
        raise ValueError(f"unknown bracketing {name!r}; choose from {', '.join(PLANNERS)}")
    return name
