"""Bracketings by name, and plans of groups that are made once."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, cast

import torch
from torch import Tensor

from treefold.fold.groups import Groups, checked_sizes
from treefold.fold.plan import TreePlan
from treefold.fold.plan_balanced import plan_balanced
from treefold.fold.plan_ragged import plan_carry, plan_random

# Open to any string: a wrong one gets our error and not a type checker's.
Bracketing: TypeAlias = Literal["balanced", "carry", "random"] | str

REPEATABLE: dict[str, Callable[[Tensor], TreePlan]] = {
    "balanced": plan_balanced,
    "carry": plan_carry,
}
BRACKETINGS = (*REPEATABLE, "random")


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
    sizes = checked_sizes(sizes)
    if checked_bracketing(bracketing) == "random":
        plan = plan_random(sizes, generator)
    else:
        plan = REPEATABLE[bracketing](sizes)
    return plan if device.type == "cpu" else plan.to(device)


def plan_of(
    groups: Groups, bracketing: Bracketing, generator: torch.Generator | None = None
) -> TreePlan:
    """The plan for these groups, made at the first call; a fresh one each time if it is random."""
    if bracketing in groups.plans:
        return cast(TreePlan, groups.plans[bracketing])
    here = groups.sizes.is_cpu
    sizes = groups.sizes if here else groups.host_sizes
    if bracketing == "random":
        plan = plan_random(sizes, generator)
        return plan if here else plan.to(groups.order.device)
    with torch.inference_mode(False):  # for training too, wherever it is first asked for
        plan = REPEATABLE[bracketing](sizes)
        groups.plans[bracketing] = plan if here else plan.to(groups.order.device)
    return cast(TreePlan, groups.plans[bracketing])


def checked_bracketing(name: str) -> str:
    """The name of a bracketing, or a ValueError that lists them."""
    if name not in BRACKETINGS:
        raise ValueError(f"unknown bracketing {name!r}; choose from {', '.join(BRACKETINGS)}")
    return name
