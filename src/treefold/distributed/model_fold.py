"""Models that fold tables: what a row becomes, the operator that merges states, and the answers.

Workers get these parts alone, so a worker needs only torch and the operators.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from treefold.aggr import LCMAggregation
from treefold.algebra import ExactMonoid, Monoid
from treefold.fold import Bracketing, Groups, Rows, TableRows, plan_tree, tree_reduce
from treefold.saving import load
from treefold.shapes import Int, Shaped


@dataclass(frozen=True, eq=False)
class ModelFold:
    """Encodes rows as states, merges states, and answers, all without gradients.

    Rows are integers, which `table` has the states of, or vectors of `in_channels` numbers.
    """

    operator: Monoid
    """The operator that merges two states."""
    table: Shaped[Tensor, " values *state"] | None = None
    """The states of the integers from 0 on; None for a model that takes vectors."""
    decoder: Callable[[Tensor], Tensor] | None = None
    """From states to answers."""
    bracketing: Bracketing = "balanced"
    in_channels: int = 0
    """The width of the vectors that the model takes; 0 for one that takes integers."""
    encoder: Callable[[Tensor], Rows] | None = None
    """From vectors to states; None where vectors are states."""

    @classmethod
    def of(cls, model: object) -> "ModelFold":
        """The fold of an aggregator, an operator or a finite monoid, in float32."""
        if isinstance(model, str | Path):
            model = load(model)
        if isinstance(model, cls):
            return model
        if isinstance(model, LCMAggregation):
            ours = copy.deepcopy(model).float().eval()
            return cls(
                ours.operator,
                bracketing=ours.eval_bracketing,
                in_channels=ours.in_channels,
                encoder=ours.projected,
            )
        values = getattr(model, "values", None)
        if isinstance(model, Monoid) and isinstance(values, Tensor):
            answers = None if getattr(model, "answers", None) is None else model.decode  # type: ignore[attr-defined]
            return cls(model, values, answers)
        if isinstance(model, nn.Module) and isinstance(model, Monoid):
            operator = copy.deepcopy(model).float().eval()
            channels = cast(int, operator.channels)
            return cls(operator, in_channels=channels, encoder=getattr(operator, "code", None))
        raise ValueError(
            f"got {model!r:.80}; expected an LCMAggregation, an operator, a FiniteMonoid or the "
            "folder of one: for a run use `treefold.lab.experiments.load_fold(folder)`"
        )

    @property
    def none(self) -> Shaped[Tensor, " 0 *state"]:
        """No states, of the shape and type that states have."""
        if self.table is not None:
            return self.table[:0]
        return self._gathered(self.encoded(torch.zeros(0, self.in_channels)))

    @property
    def is_exact(self) -> bool:
        """True if all merge orders agree by definition."""
        return isinstance(self.operator, ExactMonoid) or not self.none.is_floating_point()

    def takes_states(self) -> "ModelFold":
        """The same fold for columns that hold states, such as an earlier result."""
        if self.none.is_floating_point():
            return replace(self, table=None, encoder=None, in_channels=self.none.shape[1])
        return replace(self, table=torch.arange(len(self.operator)))  # type: ignore[arg-type]

    @torch.no_grad()
    def encoded(self, x: Tensor) -> Rows:
        """The states of rows, those of integers not yet gathered."""
        if self.table is not None:
            return TableRows(self.table, x)
        return x if self.encoder is None else self.encoder(x)

    @torch.no_grad()
    def states(self, x: Tensor) -> Shaped[Tensor, " n *state"]:
        """The states of rows."""
        return self._gathered(self.encoded(x))

    @torch.no_grad()
    def fold(self, x: Tensor, groups: Groups) -> Shaped[Tensor, " groups *state"]:
        """One state per group of rows."""
        return self.merge(self.encoded(x), groups)

    @torch.no_grad()
    def merge(self, states: Rows, groups: Groups) -> Shaped[Tensor, " groups *state"]:
        """One state per group of states."""
        rows = states[groups.order] if isinstance(states, Tensor | TableRows) else states
        plan = plan_tree(groups.sizes, self.bracketing)
        return cast(Tensor, tree_reduce(self.operator, rows, plan))

    @torch.no_grad()
    def answers(self, states: Shaped[Tensor, " n *state"]) -> Shaped[Tensor, " n *answer"]:
        """The model's answer for each state."""
        if self.decoder is None:
            raise ValueError("this model answers nothing: it has states alone; fold without decode")
        return self.decoder(states)

    def _gathered(self, rows: Rows) -> Tensor:
        return rows.gathered() if isinstance(rows, TableRows) else cast(Tensor, rows)


class BinaryAnswers(nn.Module):
    """Integers from a network's logits of their binary digits, the lowest first."""

    def __init__(self, logits: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, states: Tensor) -> Int[Tensor, " n"]:
        """The integer whose digits are those with positive logits."""
        digits = self.logits(states) > 0
        return (digits.long() << torch.arange(digits.shape[-1])).sum(-1)
