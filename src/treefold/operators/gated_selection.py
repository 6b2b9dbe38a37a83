"""Gated selection: each channel is copied from one of the arguments, or newly written."""

from torch import Tensor, nn

from treefold.fold import Fold, Rows, TableRows, TreePlan, fold_levels
from treefold.operators.engine.folding import can_fold, fold
from treefold.operators.gated_selection_fold import GATED_SELECTION, combine, stretched_gate
from treefold.operators.operator import Operator
from treefold.shapes import Float


class GatedSelection(Operator):
    """The operator a ⊕ b = k (s a + (1 - s) b) + (1 - k) n, with a learned identity.

    The gates k (keep) and s (select), between 0 and 1, and the new value n come from both arguments
    through one hidden layer. Exchanging the arguments turns s into 1 - s and leaves k and n as they
    are, so it is commutative by construction. Where a gate is shut, a channel is a copy, and a copy
    of a copy is still exact: what one merge gets right, a thousand merges do not wear away. An
    average of both argument orders, as in Binary-GRU, cannot copy.

    A sigmoid never shuts for good, and rare states meet gates that are far from shut. With
    `stretch`, a gate is a sigmoid stretched beyond 0 and 1 by that much, and cut off there.

    Without `selects`, s is ½ everywhere; without `writes`, k is 1.
    """

    def __init__(
        self,
        channels: int,
        hidden_channels: int | None = None,
        *,
        selects: bool = True,
        writes: bool = True,
        stretch: float = 0.0,
    ) -> None:
        super().__init__(channels)
        if not stretch >= 0:
            raise ValueError(f"stretch is {stretch}; expected 0 or more")
        self.stretch = stretch
        hidden_channels = channels if hidden_channels is None else hidden_channels
        self.hidden = nn.Linear(channels, 2 * hidden_channels)
        self.select = nn.Linear(hidden_channels, channels, bias=False) if selects else None
        self.keep_and_new = nn.Linear(hidden_channels, 2 * channels) if writes else None
        self.identity = self.learned_identity()

    def forward(
        self, a: Float[Tensor, " *n channels"], b: Float[Tensor, " *n channels"]
    ) -> Float[Tensor, " *n channels"]:
        """Combine `a` and `b`, row by row."""
        return combine(a, b, self._parameters_of_fold(), (self.stretch,))

    def fold_tree(self, x: Rows, plan: TreePlan) -> Fold:
        """Fold every group: the same as `fold_levels(self, x, plan)`, faster where it can be."""
        rows, parameters = x.table if isinstance(x, TableRows) else x, self._parameters_of_fold()
        if not isinstance(rows, Tensor) or not can_fold(rows, [*parameters, self.identity]):
            return fold_levels(self, x, plan)
        if rows.shape[-1] != self.channels:
            raise ValueError(
                f"rows have shape {tuple(rows.shape)}; expected [n, ..., {self.channels}]"
            )
        folded = fold(GATED_SELECTION, x, plan, self.identity, parameters, self.stretch)
        return Fold(*folded)

    def _parameters_of_fold(self) -> list[Tensor | None]:
        select, write = self.select, self.keep_and_new
        return [
            *(self.hidden.weight, self.hidden.bias, None if select is None else select.weight),
            *((None, None) if write is None else (write.weight, write.bias)),
        ]

    def _gate(self, x: Tensor) -> Tensor:
        return stretched_gate(x, self.stretch)
