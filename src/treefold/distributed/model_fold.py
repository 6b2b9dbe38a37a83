"""The parts of a trained set network that fold: embedding, operator and decoder.

Workers get these parts alone, so a worker needs only torch and the operators.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from treefold.algebra import Monoid
from treefold.fold import Bracketing, Groups, TableRows, plan_tree, tree_reduce
from treefold.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class ModelFold:
    """Embeds integers, folds states and decodes them, all without gradients.

    Rows are integers that the model embeds, or states that it, or another fold, has made.
    """

    operator: Monoid
    """The operator that merges two states."""
    table: Float[Tensor, " values channels"]
    """The states of the integers from 0 on."""
    decoder: nn.Module
    """From states to logits of binary digits, the lowest first."""
    bracketing: Bracketing = "balanced"

    @property
    def channels(self) -> int:
        """The width of a state."""
        return self.table.shape[1]

    @property
    def num_values(self) -> int:
        """Integers from 0 up to this one, exclusive, can be embedded."""
        return self.table.shape[0]

    @torch.no_grad()
    def fold(self, x: Tensor, groups: Groups) -> Float[Tensor, " groups channels"]:
        """One state per group, from integers `[n]` or states `[n, channels]`."""
        rows = x if x.is_floating_point() else TableRows(self.table, x)
        plan = plan_tree(groups.sizes, self.bracketing)
        folded = tree_reduce(self.operator, rows[groups.order], plan)
        assert isinstance(folded, Tensor)
        return folded

    def states(self, x: Tensor) -> Float[Tensor, " n channels"]:
        """The rows as states: integers are embedded."""
        return x if x.is_floating_point() else self.table[x]

    @torch.no_grad()
    def answers(self, states: Float[Tensor, " n channels"]) -> Int[Tensor, " n"]:
        """The model's answer for each state, an integer."""
        digits: Tensor = self.decoder(states) > 0
        places = torch.arange(digits.shape[-1], device=digits.device)
        return (digits.long() << places).sum(-1)


def required_model(fold: object) -> ModelFold:
    """The fold itself, or a ValueError that names how to load one."""
    if not isinstance(fold, ModelFold):
        raise ValueError(
            f"got {fold!r:.80}; expected a ModelFold: for a run use "
            "`treefold.lab.experiments.load_fold(folder)`"
        )
    return fold
