"""Any law as a loss: asked of states that are drawn from the trees of a batch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from treefold.aggr.sampling import Sampling
from treefold.aggr.tree_states import TreeStates
from treefold.algebra import Law, Monoid

LawLoss: TypeAlias = Callable[..., Tensor]
"""From an operator, the states of a tree, a sampling and a generator to a loss."""


@dataclass(frozen=True)
class ElementLaw:
    """The mean of |left - right|² of a law over elements that occur: leaves and nodes of trees.

    The first element is each state once, or `sampling.num_nodes` of them; the others are as many
    states in random order, of any set: a law is about all elements.
    """

    law: Law

    def __call__(
        self,
        op: Monoid,
        tree: TreeStates,
        sampling: Sampling,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The loss; without bias if sampled."""
        everywhere = torch.arange(len(tree), device=tree.nodes.device)
        places = [sampling.choose(everywhere, generator)]
        for _ in range(1, self.law.arity):
            places.append(sampling.shuffled(everywhere, generator)[: len(places[0])])
        elements = [tree.at(each).gathered().flatten(0, -2) for each in places]
        return self.law.loss(op, *elements, reduction=sampling.reduction)


def weights_by_name(
    laws: Mapping[Law, float] | None, taken: Mapping[str, float]
) -> dict[str, float]:
    """The weights of somebody's own laws; a ValueError if one is no law, or has a name of ours."""
    found: dict[str, float] = {}
    if not isinstance(laws, Mapping | None):
        raise ValueError(f"laws is {laws!r:.60}; expected a weight for each: {{law: weight}}")
    for law, weight in (laws or {}).items():
        if not isinstance(law, Law):
            raise ValueError(
                f"laws has the key {law!r}; expected a Law, such as "
                'algebra.Law("idempotence", 1, lambda op, a: (op(a, a), a))'
            )
        if law.name in taken:
            raise ValueError(
                f"laws has {law.name}, which has a weight of its own; use {law.name}={weight:g}"
            )
        if law.name in found:
            raise ValueError(f"laws has {law.name} twice; give each law a name of its own")
        found[law.name] = weight
    return found
